"""The scores of any model folder on an unlearning problem: a checkpoint of this project, an adapter, or anyone's model.

They are cached by content: weights, processor, data, metrics and the retain model name them, so that scores of one
model are never taken for another's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.durable import write_whole
from trainables.modality import modality_of
from trainables.scoring.measured import Measured
from trainables.spec import TrialSpec
from trainables.target import cache_keys as keys
from trainables.target import target as targets
from trainables.target.finetune import Progress
from trainables.target.problem import load_problem
from trainables.target.retain_model import metrics_and_retain

if TYPE_CHECKING:
    import torch

ADAPTER = "adapter_config.json"
"""What makes a folder a PEFT adapter rather than a whole model."""


def score_checkpoint(
    spec: TrialSpec,
    *,
    cache: Path | None = None,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Measured:
    """Losses and ``spec.metrics`` of the model in ``spec.target_path`` on the spec's data.

    The template is that of ``spec.model``; the retain model, where a metric needs one, is in ``spec.retain_path``.

    Raises:
        DataError, LoadError, TargetError: with a plain sentence; MetricError where a metric cannot be had.
    """
    assert spec.target_path is not None, "the folder to score"
    folder = Path(spec.target_path)
    cache = cache or targets.cache_folder()
    device = device or targets.default_device()
    data = load_problem(spec)
    recipe = targets.target_recipe(spec)
    chosen, retain = metrics_and_retain(spec, data, recipe=recipe, cache=cache, device=device, on_progress=on_progress)
    template = targets.model_info(spec).template
    named = (_content(folder), data, chosen, retain.key if retain else None, spec.max_length, template)
    stored = cache / "scores" / f"{keys.digest(keys.FORMAT, 'scores', *named)}.json"
    if not stored.is_file():
        modality = modality_of(data, template)
        model = modality.load_model(folder).to(device)
        evaluator = modality.evaluator(
            data,
            modality.load_processor(folder),
            classes=modality.classes(model.config),
            max_length=spec.max_length,
            batch_size=spec.eval_batch_size,
            device=device,
        )
        losses = evaluator.losses(model)
        found = evaluator.measure(model, chosen, retain=retain, unchanged=True)
        write_whole(stored, json.dumps(asdict(replace(found, metrics={**losses, **found.metrics}))))
    return Measured(**json.loads(stored.read_text()))


def checkpoint_problems(folder: Path, other: Callable[[Path], Sequence[str]]) -> list[str]:
    """Why an adapter's base model cannot be found, or what ``other`` has against a folder that is no adapter."""
    if not (folder / ADAPTER).is_file():
        return list(other(folder))
    base = _base_of(folder)
    if base is None or (Path(base).is_absolute() and not Path(base).is_dir()):
        return [f"{folder}: the adapter's base model {base} is not there; make it again with the target command"]
    return []


def _base_of(folder: Path) -> str | None:
    try:
        found = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found) if found else None


def _content(folder: Path) -> str:
    """Names the weights: an adapter's with those of its base."""
    own = keys.folder_digest(folder)
    base = _base_of(folder) if (folder / ADAPTER).is_file() else None
    return f"{own}+{keys.folder_digest(Path(base))}" if base and Path(base).is_dir() else own
