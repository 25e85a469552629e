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

from trainables.device import default_device
from trainables.models.adapters import ADAPTER_CONFIG
from trainables.scoring.measured import Measured
from trainables.spec import TrialSpec
from trainables.target.cache import FORMAT, Cache, digest, folder_digest
from trainables.target.finetune import Progress
from trainables.target.problem import problem_of
from trainables.target.retain_model import retain_values

if TYPE_CHECKING:
    import torch


def score_checkpoint(
    spec: TrialSpec,
    *,
    cache: Path | None = None,
    device: torch.device | str | None = None,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> Measured:
    """Losses and ``spec.metrics`` of the model in ``spec.target_path`` on the spec's data.

    The template is ``spec.template``, or that of ``spec.model``; the retain model, where a metric needs one, is in
    ``spec.retain_path``.

    Raises:
        DataError, LoadError, TargetError: with a plain sentence; MetricError where a metric cannot be had.
    """
    assert spec.target_path is not None, "the folder to score"
    folder, known, device = Path(spec.target_path), Cache(cache), device or default_device()
    problem = problem_of(spec)
    retain = retain_values(problem, cache=known, device=device, on_progress=on_progress)

    def compute() -> dict[str, object]:
        model = problem.modality.load_model(folder).to(device)
        evaluator = problem.evaluator(model, problem.modality.load_processor(folder), device=device)
        losses = evaluator.losses(model)
        found = evaluator.measure(model, problem.measured(), retain=retain, unchanged=True)
        return asdict(replace(found, metrics={**losses, **found.metrics}))

    asked = (problem.measured(), retain.key if retain else None, problem.max_length, problem.template_key)
    name = digest(FORMAT, "scores", _content(folder), problem.data, *asked, *problem.measured_by(problem.measured()))
    return Measured(**known.note(f"scores/{name}", compute))


def checkpoint_problems(folder: Path, other: Callable[[Path], Sequence[str]]) -> list[str]:
    """Why an adapter's base model cannot be found, or what ``other`` has against a folder that is no adapter."""
    if not (folder / ADAPTER_CONFIG).is_file():
        return list(other(folder))
    base = _base_of(folder)
    if base is None or (Path(base).is_absolute() and not Path(base).is_dir()):
        return [f"{folder}: the adapter's base model {base} is not there; make it again with the target command"]
    return []


def _base_of(folder: Path) -> str | None:
    try:
        found = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found) if found else None


def _content(folder: Path) -> str:
    """Names the weights: an adapter's with those of its base."""
    own = folder_digest(folder)
    base = _base_of(folder) if (folder / ADAPTER_CONFIG).is_file() else None
    return f"{own}+{folder_digest(Path(base))}" if base and Path(base).is_dir() else own
