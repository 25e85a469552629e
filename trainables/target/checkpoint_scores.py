"""Score any model folder on an unlearning task: a checkpoint of this project, an adapter, or another model.

Scores are cached under a hash of the weights, processor, data, metrics and retain model, so scores of different models
are never confused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.models.adapters import ADAPTER_CONFIG
from trainables.scoring.measured import Measured
from trainables.spec import TrialSpec
from trainables.target.cache import FORMAT, Cache, digest, folder_digest
from trainables.target.finetune import Progress
from trainables.target.prepare import Preparation
from trainables.target.target_spec import target_spec_of

if TYPE_CHECKING:
    import torch


def score_checkpoint(
    spec: TrialSpec,
    *,
    cache: Path | None = None,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Measured:
    """Return the losses and ``spec.metrics`` of the model in ``spec.target_path`` on the spec's data.

    The prompt template is ``spec.template`` or, if this is None, the template of ``spec.model``. If a metric needs a
    retain model, the retain model is loaded from ``spec.retain_path``.

    Raises:
        DataError, LoadError, TargetError: the data or a model cannot be used; the message is for the user.
        MetricError: the data do not allow a metric that was requested by name.
    """
    assert spec.target_path is not None, "the folder to score"
    folder, target_spec = Path(spec.target_path), target_spec_of(spec)
    preparation = Preparation(spec=target_spec, cache=Cache(cache), device=device, on_progress=on_progress)
    retain, names = preparation.retain_values(), target_spec.measured()

    def compute() -> dict[str, object]:
        model, _, evaluator = preparation.load(folder)
        scores = evaluator.scores(model, retain=retain)
        losses, found = scores.loss_metrics(), scores.measure(names)
        return asdict(replace(found, metrics={**losses, **found.metrics}))

    asked = (names, retain.key if retain else None, target_spec.trial.max_length, target_spec.template_key)
    name = digest(FORMAT, "scores", _content(folder), target_spec.data, *asked, *target_spec.measured_by(names))
    return Measured(**preparation.cache.note(f"scores/{name}", compute))


def checkpoint_problems(folder: Path, other: Callable[[Path], Sequence[str]]) -> list[str]:
    """Return a message if the folder has an adapter whose base model is missing. For a folder without an adapter,
    return the problems that ``other`` finds."""
    if not (folder / ADAPTER_CONFIG).is_file():
        return list(other(folder))
    base = _base_of(folder)
    if base is None or (Path(base).is_absolute() and not Path(base).is_dir()):
        return [
            f"{folder}: the adapter's base model {base} is missing; 'python -m sweeper target' makes the target again"
        ]
    return []


def _base_of(folder: Path) -> str | None:
    try:
        found = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found) if found else None


def _content(folder: Path) -> str:
    """Return a hash that identifies the weights. For an adapter, the hash includes the base model's weights."""
    own = folder_digest(folder)
    base = _base_of(folder) if (folder / ADAPTER_CONFIG).is_file() else None
    return f"{own}+{folder_digest(Path(base))}" if base and Path(base).is_dir() else own
