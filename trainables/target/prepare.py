"""Load the target and the retain model from the cache, or train them. Also score any model in a folder."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.common.durable import wait_for_lock
from trainables.data import TaskData
from trainables.device import default_device
from trainables.metrics.registry import METRICS, needs_retain_model
from trainables.modality import ModelEvaluator
from trainables.modality.evaluation import evaluate_items
from trainables.models.checkpoints import ADAPTER_CONFIG, base_of
from trainables.scoring.base import Measurement, RetainValues, generated_answers, item_counts, select_metrics
from trainables.spec import TrialSpec
from trainables.target.cache import (
    FORMAT,
    RECORD,
    SCORING,
    Cache,
    TargetError,
    digest,
    folder_digest,
    is_trained,
    mark_used,
    unfinished_file,
)
from trainables.target.target import Target, TargetSpec, target_spec_of
from trainables.target.training import Progress, require_undamaged, train

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

RETAIN = "retain model, "
"""The beginning of the progress text while the retain model is trained."""
WAITING = "waiting for another process that trains the same model"
"""The progress text while another process trains the same model."""


def prepare_target(
    spec: TrialSpec,
    *,
    cache: Path | None = None,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    measured: bool = True,
) -> Target:
    """Return the target for a spec: from the cache, from ``target_path``, or by fine-tuning.

    Args:
        measured: whether the target's scores are needed. Without them, the target has no baseline and no answers.
        cache: the folder of the cache; by default the result of :func:`~trainables.target.cache.cache_folder`.
        on_progress: function that is called with the progress after every epoch of training.

    Raises:
        DataError, TargetError, LoadError: the target cannot be prepared; the message is for the user.
    """
    preparation = Preparation(spec=target_spec_of(spec), cache=Cache(cache), device=device, on_progress=on_progress)
    return preparation.target(measured=measured)


def score_checkpoint(
    spec: TrialSpec, *, target: Path | None = None, on_progress: Callable[[Progress], None]
) -> Measurement:
    """Return the losses and metrics of the model in ``spec.target_path`` on the spec's data.

    If a metric needs the retain model, the retain model is loaded from ``spec.retain_path``. Metrics that compare the
    model with the target are measured only if ``target``, the folder of the target, is given.

    Raises:
        DataError, LoadError, TargetError: the data or a model cannot be used; the message is for the user.
        MetricError: a metric that was requested by name cannot be measured on the data.
    """
    assert spec.target_path is not None, "target_path must name the folder to score"
    folder = Path(spec.target_path)
    target_spec = target_spec_of(spec)
    preparation = Preparation(spec=target_spec, on_progress=on_progress)
    retain = preparation.retain_values()
    names = target_spec.metric_names(target=target is not None)

    def compute() -> dict[str, object]:
        model, _, evaluator = preparation.load(folder)
        load_target = None if target is None else cache(lambda: preparation.load(target)[0])
        provider = None if load_target is None else lambda: nullcontext(load_target())
        scores = evaluator.scores(model, retain=retain, target=provider)
        losses = scores.loss_metrics()
        measurement = scores.measure(names)
        return asdict(replace(measurement, metrics={**losses, **measurement.metrics}))

    settings = (names, retain.key if retain else None, target_spec.trial.max_length, target_spec.template_key)
    name = digest(
        FORMAT,
        SCORING,
        "scores",
        _model_digest(folder),
        *([] if target is None else [_model_digest(target)]),
        target_spec.data,
        *settings,
        *target_spec.metric_digests(names),
    )
    return Measurement(**preparation.cache.note(f"scores/{name}", compute))


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Loads or trains the models of a target spec.

    Attributes:
        device: the device for training and scoring; None for a GPU if available, otherwise the CPU.
        on_progress: function that is called with the progress after every epoch of training.
    """

    spec: TargetSpec
    cache: Cache = field(default_factory=Cache)
    device: torch.device | str | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None

    def target(self, *, measured: bool = True) -> Target:
        """Return the target with its scores, from the cache if possible; without scores if not ``measured``.

        Raises:
            TargetError, LoadError: the target cannot be prepared; the message is for the user.
            NotCached: an entry is not in the cache, and the cache may not compute it.
        """
        spec = self.spec
        retain_key = self._retain_key()
        retain = self.retain_values() if measured else None
        folder, model_key = self.model()
        key_without_retain = digest(FORMAT, model_key, spec.data, spec.trial.max_length, spec.template_key)
        key = key_without_retain if retain_key is None else digest(FORMAT, key_without_retain, retain_key)
        default_names = select_metrics((), spec.data, retain_model=False)
        names = tuple(dict.fromkeys([*default_names, *spec.metric_names()]))  # without duplicates
        scores_key = digest(FORMAT, SCORING, key, names, spec.metric_digests(names))
        scores = (
            self.cache.note(f"baselines/{scores_key}", lambda: self._scores(folder, names, retain))
            if measured
            else self._without_scores(folder)
        )
        return Target(
            key=key,
            path=str(folder.resolve()),
            data=spec.data,
            vocabulary_size=scores["classes"],
            baseline=dict(scores["baseline"]),
            reference_nll=tuple(scores["reference_nll"]),
            max_length=spec.trial.max_length,
            template=spec.info.template,
            retain=retain,
            left_out=spec.left_out,
            answers=scores["answers"],
            item_counts=dict(scores["item_counts"]),
            key_without_retain=key_without_retain,
        )

    def model(self) -> tuple[Path, str]:
        """Return the folder of the target's model, and a hash that identifies the model."""
        if self.spec.target_path is not None:
            return self.spec.target_path, folder_digest(self.spec.target_path)
        name = self.spec.trained_key
        return self._load_or_train(name, self.spec.data), name

    def _scores(self, folder: Path, names: tuple[str, ...], retain: RetainValues | None) -> dict[str, object]:
        spec = self.spec
        model, processor, evaluator = self.load(folder)
        forget = spec.modality.encode(processor, spec.data.forget, max_length=spec.trial.max_length)
        batch_size = spec.trial.eval_batch_size
        reference = evaluate_items(spec.modality, model, forget, processor=processor, batch_size=batch_size)
        scores = evaluator.scores(model, retain=retain, target=lambda: nullcontext(model))
        losses = scores.loss_metrics()
        measurement = scores.measure(names)
        return {
            "classes": spec.modality.classes(model.config),
            "baseline": {**losses, **measurement.metrics},
            "reference_nll": reference.totals.tolist(),
            "answers": generated_answers(measurement.items),
            "item_counts": item_counts(measurement.items),
        }

    def _without_scores(self, folder: Path) -> dict[str, Any]:
        model, _, _ = self.load(folder)
        classes = self.spec.modality.classes(model.config)
        return {"classes": classes, "baseline": {}, "reference_nll": (), "answers": {}, "item_counts": {}}

    def retain_model(self) -> Path:
        """Return the folder of the retain model: the target's base model, trained only on the retain set.

        The recipe and the seed are those of the target. If the recipe's ``stop_when_memorised`` is true, training ends
        as soon as the model has memorised the retain set.

        Raises:
            TargetError, LoadError: the model cannot be trained, or the base model is unknown; the message is for the
                user.
        """
        if self.spec.target_path is not None:
            raise TargetError(
                "a retain model cannot be trained with --target-path, because the target's base model is unknown; give "
                "the base model with --model-path, or the retain model's folder with --retain-model"
            )
        return self._load_or_train(self.spec.retain_key, self.spec.data.retain_task(), prefix=RETAIN)

    def _load_or_train(self, name: str, data: TaskData, *, prefix: str = "") -> Path:
        """Return the folder of a model in the cache. Train the model if it is missing.

        If another process is training the same model, wait for the other process.
        """

        def report(progress: Progress) -> None:
            self.on_progress(replace(progress, text=prefix + progress.text))

        folder = self.cache.model(name)
        if not is_trained(folder):
            with wait_for_lock(unfinished_file(folder, ".lock"), lambda: report(Progress(0, 0, WAITING))):
                if not is_trained(folder):  # another process may have trained the model
                    train(self.spec, folder, data=data, device=self.device or default_device(), on_progress=report)
        require_undamaged(folder)
        mark_used(folder / RECORD)
        return folder

    def retain_values(self) -> RetainValues | None:
        """Return the values of the retain model; None if none was given and no requested metric needs one."""
        spec, key = self.spec, self._retain_key()
        user_folder = spec.retain_path
        if key is None:
            return None

        def compute() -> dict[str, object]:
            folder = user_folder or self.retain_model()
            model, _, evaluator = self.load(folder)
            values = evaluator.reference(model, key=key, path=str(folder.resolve()))
            if attacked:
                metrics = evaluator.scores(model).measure(attacked).metrics
                values = replace(values, metrics={**values.metrics, **metrics})
            return asdict(values)

        attacked = [name for name in spec.metric_names() if METRICS[name].attack and not METRICS[name].needs_target]
        parts = [attacked, spec.metric_digests(attacked)] if attacked else []
        values = self.cache.note(f"retain-values/{digest(SCORING, key, *parts)}", compute)
        if user_folder is None:
            mark_used(Path(values["path"]) / RECORD)
        tuples = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        return RetainValues(**{**values, **tuples, "key": key})

    def _retain_key(self) -> str | None:
        """Return the key of the retain model's values; None if :meth:`retain_values` returns None."""
        spec = self.spec
        if spec.retain_path is None and not needs_retain_model(spec.metric_names()):
            return None
        identity = spec.retain_key if spec.retain_path is None else folder_digest(spec.retain_path)
        return digest(FORMAT, "retain", identity, spec.data, spec.trial.max_length, spec.template_key)

    def load(self, folder: Path) -> tuple[PreTrainedModel, Any, ModelEvaluator]:
        """Return the model in a folder, its tokenizer or image processor, and an evaluator for the model.

        Raises:
            LoadError: the model cannot be loaded, or is incomplete.
            DataError: the data do not fit the model.
        """
        model = self.spec.modality.load_model(folder).to(self.device or default_device())
        processor = self.spec.modality.load_processor(folder)
        self.spec.require_fit(model, processor)
        return model, processor, self.spec.evaluator(model, processor)


def _model_digest(folder: Path) -> str:
    """Return a hash of the model in a folder. For an adapter, the hash includes a base model in a local folder."""
    model_digest = folder_digest(folder)
    base = base_of(folder) if (folder / ADAPTER_CONFIG).is_file() else None
    if base is None or not Path(base).is_dir():
        return model_digest
    return f"{model_digest}+{folder_digest(Path(base))}"
