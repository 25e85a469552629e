"""From a base model to a fine-tuned one in a folder of the cache, whole or not at all."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.checksums import write_checksums
from search_spaces.durable import free_bytes, in_turn, staged
from search_spaces.messages import counted, expected_one_of, size
from trainables.data import ProblemData
from trainables.device import default_device
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import write_model
from trainables.models.hub_cache import fetch_model
from trainables.models.registry import MODELS, is_hub_id
from trainables.target.cache import is_made, used
from trainables.target.checksums import require_undamaged
from trainables.target.finetune import NotMemorised, Progress, TargetError, finetune
from trainables.target.problem import Problem
from trainables.target.training_state import TrainingState

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

WAITING = "waiting for another process that makes the same one"
"""The text of the progress that is told where two sweeps need one target."""


def trained(
    problem: Problem,
    folder: Path,
    *,
    data: ProblemData,
    device: torch.device | str | None,
    on_progress: Callable[[Progress], None],
) -> Path:
    """``folder``, with the problem's base model fine-tuned on ``data.full`` in it, now or before.

    Training goes on where a killed one was last saved. Where another process is at it, it is waited for.

    Raises:
        TargetError, LoadError: with a plain sentence.
    """
    if not is_made(folder):
        lock = folder.parent.with_name("unfinished") / f"{folder.name}.lock"
        with in_turn(lock, lambda: on_progress(Progress(0, 0, WAITING))):
            if not is_made(folder):  # by the process that was waited for
                _train(problem, folder, data=data, device=device, on_progress=on_progress)
    require_undamaged(folder)
    used(folder / "target.json")
    return folder


def _train(
    problem: Problem,
    folder: Path,
    *,
    data: ProblemData,
    device: torch.device | str | None,
    on_progress: Callable[[Progress], None],
) -> None:
    modality, recipe, device = problem.modality, problem.recipe, device or default_device()
    model, processor = load_base(problem)
    _require_room(model, folder)
    model.to(device)
    if recipe.lora_rank is not None:
        model = add_adapter(model, rank=recipe.lora_rank, seed=problem.seed)
    evaluator = problem.evaluator(model, processor, device=device, data=data)
    with _contradictions_named(data):
        epochs = finetune(
            model,
            modality.encode(processor, data.full, max_length=problem.max_length),
            recipe=recipe,
            modality=modality,
            processor=processor,
            device=device,
            seed=problem.seed,
            memorised=lambda trained: modality.memorised(evaluator, trained),
            on_progress=on_progress,
            state=(state := TrainingState(folder.parent.with_name("unfinished") / f"{folder.name}.pt")),
        )
    if recipe.lora_rank is not None:
        model = model.merge_and_unload()
    made_from = {"model": problem.info.name, "base": problem.base, "data": data.name, "recipe": asdict(recipe)}
    # Where another process finished the same target first, its content is the same.
    with staged(folder, keep_existing=True) as staging:
        write_model(model, processor, staging)
        (staging / "target.json").write_text(json.dumps({**made_from, "epochs": epochs}, indent=2))
        write_checksums(staging)
    state.discard()


@contextlib.contextmanager
def _contradictions_named(data: ProblemData) -> Iterator[None]:
    """Where the data cannot be memorised, say which questions have several answers: no model gives them all."""
    try:
        yield
    except NotMemorised as error:
        answers: dict[str, set[str]] = {}
        for item in data.full:
            if question := getattr(item, "question", ""):
                answers.setdefault(question, set()).add(item.answer)
        several = [question for question, found in answers.items() if len(found) > 1]
        if not several:
            raise
        asked = counted(len(several), "question")
        raise NotMemorised(f"{error}; more than one answer has {asked}, as '{several[0]}'") from None


def _require_room(model: PreTrainedModel, folder: Path) -> None:
    needed, free = 4 * sum(weights.numel() for weights in model.parameters()), free_bytes(folder)
    if free < needed:
        raise TargetError(
            f"not enough disk: the target takes {size(needed)}, and {size(free)} are free in {folder.parent}; make "
            "room there, or set XDG_CACHE_HOME to a folder on a larger disk"
        )


def load_base(problem: Problem) -> tuple[PreTrainedModel, Any]:
    """The model and its processor (tokenizer or image processor) fine-tuning starts from.

    Raises:
        TargetError: the model is unknown.
        LoadError: it cannot be loaded.
    """
    info, modality, folder = problem.info, problem.modality, problem.base_folder
    if folder is None:
        if info.name not in MODELS and not is_hub_id(info.name):
            raise TargetError(
                f"unknown model '{info.name}': {expected_one_of(info.name, MODELS)}, a hub id ORGANISATION/NAME, "
                "or a model_path"
            )
        if info.modality != modality.name:
            raise TargetError(
                f"model '{info.name}' is none of the {modality.models}, as {problem.data.name} needs; give one in a "
                "folder as model_path"
            )
        if info.make is not None:
            return _made(problem)
        folder = fetch_model(info.hub_id) if info.hub_id is not None else None
    return modality.load_base(info.name, folder, problem.data, seed=problem.seed)


def _made(problem: Problem) -> tuple[PreTrainedModel, Any]:
    """A model that a plug-in makes, as it is loaded from a folder; weights are drawn from the problem's seed."""
    import torch

    assert problem.info.make is not None, "it is made by a plug-in"
    with tempfile.TemporaryDirectory() as made, torch.random.fork_rng(devices=[]):
        torch.manual_seed(problem.seed)
        model, processor = problem.info.make(problem.data, problem.seed)
        write_model(model, processor, Path(made))
        return problem.modality.load_base(problem.info.name, Path(made), problem.data, seed=problem.seed)
