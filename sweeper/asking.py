"""Put questions to the target and to the models of a sweep or a run, and collect the answers side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.common.messages import no_sweep
from sweeper.execution.target_task import prepare_with_progress
from sweeper.execution.threads import use_free_threads
from sweeper.export.pick import choose
from sweeper.export.spec_of_row import spec_of_row
from sweeper.export.stored_models import stored_model
from sweeper.settings.options import AskOptions
from sweeper.settings.reading import read
from sweeper.settings.sources import Problems, Raw
from sweeper.store.folder import read_settings
from trainables.device import default_device
from trainables.modality import dataset_modality
from trainables.models.adapters import adapter_problems
from trainables.models.checkpoints import ADAPTER_CONFIG
from trainables.spec import TrialSpec
from trainables.target.interview import Interview, Known

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TARGET = "target"
"""The name of the target beside the names of the other models."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A question with the answer of each model.

    Attributes:
        known: the question in the data; None if the data do not have it.
        answers: the answer by name of the model. The target comes first.
    """

    question: str
    known: Known | None
    answers: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "set": self.known.set_name if self.known else None,
            "true_answer": self.known.answer if self.known else None,
            "in_data": self.known.question if self.known else None,
            "answers": self.answers,
        }


class Panel:
    """The target and other models, loaded once. ``checkpoints`` maps the name of each model to its folder."""

    def __init__(self, interview: Interview, checkpoints: dict[str, Path]) -> None:
        self.checkpoints = checkpoints
        self._interview = interview
        self._models: dict[str, PreTrainedModel] = {}

    def ask(self, questions: Sequence[str]) -> list[Answered]:
        """Return the answers of all models to each question.

        Raises:
            DataError: a question is longer than the maximum length of a sequence.
            LoadError: a model cannot be loaded.
        """
        answers: dict[str, list[str]] = {}
        for name, folder in self.checkpoints.items():
            if name not in self._models:
                self._models[name] = self._interview.load(folder)
            answers[name] = self._interview.answers(self._models[name], questions)
        return [
            Answered(question, self._interview.known(question), {name: texts[index] for name, texts in answers.items()})
            for index, question in enumerate(questions)
        ]

    def to_dict(self, answered: Sequence[Answered]) -> dict[str, Any]:
        """Return the JSON object that ``ask --json`` prints."""
        models = {name: str(folder) for name, folder in self.checkpoints.items()}
        return {"models": models, "questions": [item.to_dict() for item in answered]}


def open_panel(out: Path, raw: Raw, questions: Sequence[str], *, console: Console) -> Panel:
    """Return the target of a sweep or of a single run, and the models that the options of ``ask`` name.

    Plug-ins must be loaded before. If the target is not in the cache, it is fine-tuned again.

    Raises:
        Problems: the folder has no sweep and no run, a model does not exist, or the models are image classifiers.
        DataError, TargetError, LoadError: the data or the target cannot be used.
    """
    options, found = read(AskOptions, raw)
    problems = [problem.text for problem in found]
    if any(not question.strip() for question in questions):
        problems.append("a question is empty")
    if options.epoch and len(options.epoch) != len(options.trial):
        problems.append(
            f"each --epoch belongs to the --trial at the same position, got {len(options.trial)} --trial and "
            f"{len(options.epoch)} --epoch"
        )
    is_sweep = (out / "sweep.json").is_file()
    if not is_sweep and not (out / "metrics.json").is_file():
        problems.append(no_sweep(out))
    if not is_sweep and options.trial:
        problems.append(f"--trial applies to a sweep, and {out} holds a single run")
    if problems:
        raise Problems(problems)
    spec, checkpoints = _models_of_sweep(out, options) if is_sweep else _model_of_run(out)
    modality = dataset_modality(spec.dataset)
    if not modality.answers_questions:
        raise Problems([f"{out}: its models are {modality.models}, which cannot answer questions"])
    problems = [text for folder in checkpoints.values() for text in _checkpoint_problems(folder)]
    if problems:
        raise Problems(problems)
    use_free_threads()
    target = prepare_with_progress(spec, console=console, measured=False)
    if spec.target_key and spec.target_key != target.key:
        console.print(
            "note: the target or its data are not those with which the model was made: a file has changed, or the "
            "version of this project",
            soft_wrap=True,
        )
    interview = Interview(target, batch_size=spec.eval_batch_size, device=default_device())
    return Panel(interview, {TARGET: Path(target.path), **checkpoints})


def _models_of_sweep(out: Path, options: AskOptions) -> tuple[TrialSpec, dict[str, Path]]:
    """Return the spec of the first model's trial, and the folder of each model by name."""
    table, sweep = TrialTable.read(out), SweepFile.read(out)
    if not options.trial:
        choice = choose(out, {})
        if choice.checkpoint is None or not choice.exists:
            raise Problems([choice.missing])
        models = [(choice.name, choice.pick.row, choice.checkpoint)]
    else:
        epochs = options.epoch or (None,) * len(options.trial)
        models = []
        problems: list[str] = []
        for trial_id, epoch in zip(options.trial, epochs, strict=True):
            try:
                model = stored_model(out, table, sweep, trial_id, epoch)
            except Problems as error:
                problems += error.problems
            else:
                models.append((model.name, model.row, model.checkpoint))
        if problems:
            raise Problems(problems)
    first = spec_of_row({str(name): value for name, value in models[0][1].items()})
    # The settings have the scoring options, and the row has the seeds of its own target.
    base = read_settings(out).base
    spec = replace(base, target_seed=first.target_seed, data_seed=first.data_seed, target_key=first.target_key)
    return spec, {name: checkpoint for name, _, checkpoint in models}


def _model_of_run(out: Path) -> tuple[TrialSpec, dict[str, Path]]:
    row = json.loads((out / "metrics.json").read_text(encoding="utf-8"))
    folder = out / "checkpoint"
    if row.get("checkpoint") is None or not folder.is_dir():
        raise Problems([f"{out} has no checkpoint: the run has the status {row.get('status')}"])
    return spec_of_row(row), {out.resolve().name: folder}


def _checkpoint_problems(folder: Path) -> Iterator[str]:
    if (folder / ADAPTER_CONFIG).is_file():
        yield from adapter_problems(folder)
