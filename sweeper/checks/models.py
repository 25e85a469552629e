"""Check that models are complete and fit the data, before any work. Only names and shapes of weights are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.data import DataError
from trainables.models.weights import LoadError
from trainables.template import TemplateError

if TYPE_CHECKING:
    from trainables.modality import Modality
    from trainables.spec import TrialSpec
    from trainables.target.target import TargetSpec


def model_problems(spec: TrialSpec, modality: Modality, target_spec: TargetSpec | None) -> list[str]:
    """Return a message for each model in a local folder or in the hub's cache that cannot be used.

    Args:
        target_spec: the specification of the target, with the data; None if the data are not loaded. The models are
            then only checked for missing weights.
    """
    problems: list[str] = []
    for folder, is_base in _folders(spec):
        try:
            model = modality.load_skeleton(folder, new_head=is_base)
            if target_spec is None or (is_base and not modality.base_has_processor):
                continue
            processor = modality.load_processor(folder)
            target_spec.require_fit(model, processor)
        except LoadError as error:
            problems.append(str(error))
        except DataError as error:
            problems += [f"{folder}: {problem}" for problem in error.problems]
        except TemplateError as error:
            problems.append(f"{folder}: {error}")
    return problems


def _folders(spec: TrialSpec) -> Iterator[tuple[Path, bool]]:
    """Yield the folder of each model, and whether the model is the target's base model."""
    from trainables.models.checkpoints import folder_problems
    from trainables.models.hub_cache import cached_snapshot
    from trainables.models.registry import find_model

    if spec.target_path is not None:
        yield Path(spec.target_path), False
    elif spec.model_path is not None:
        yield Path(spec.model_path), True
    elif (hub_id := find_model(spec.model).hub_id) is not None:
        snapshot = cached_snapshot(hub_id)
        if snapshot is not None and not folder_problems(snapshot):
            yield snapshot, True
    if spec.retain_path is not None:
        yield Path(spec.retain_path), False
