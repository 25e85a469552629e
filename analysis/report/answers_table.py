"""Prompts with the answers of the recommended model, its runners-up and the target, as tables for MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.frontier.choice import choose_model
from analysis.report.answers import MAX_QUESTIONS, evenly_spread
from analysis.tables.item_logs import Answers, model_answers, reference_answers
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import model_name

Table = dict[str, list[Any]]
"""The columns and the rows of a table."""


@dataclass(frozen=True, slots=True)
class AnswersTables:
    """The answers of all compared models in one table, and for each of their trials the answers of its best model."""

    all: Table
    by_trial: Mapping[str, Table]


def answers_tables(out: Path, answer: Mapping[str, Any] | None) -> AnswersTables | None:
    """Return the answers of a model, its runners-up and the target; None if no answers of these models were recorded.

    ``answer`` is the entry of pareto.json with the model. At most 100 questions of each evaluation set, evenly spread,
    are listed.

    Raises:
        AnalysisError: the tables cannot be read.
    """
    if not answer or not answer["trial_id"]:
        return None
    sweep, table = SweepFile.read(out), TrialTable.read(out)
    choice = choose_model(table, sweep)
    models = choice.rows
    is_answer = models["trial_id"] == answer["trial_id"]
    if answer["epoch"] is not None:
        is_answer &= models["epoch"] == answer["epoch"]
    first = models[is_answer].iloc[-1:]
    runners_up = models.iloc[[index for index in (choice.index, *choice.runners_up) if index is not None]]
    compared = [row for _, row in (*first.iterrows(), *runners_up.iterrows()) if row["checkpoint"]]
    trial_by_model: dict[str, str] = {}
    answers: dict[str, Answers] = {}
    for row in compared:
        name = model_name(row, with_epoch=table.every_epoch)
        if items := model_answers(row):
            trial_by_model[name], answers[name] = str(row["trial_id"]), items
    if not answers:
        return None
    target = reference_answers(compared[0], "target")
    questions = next(iter(answers.values()))

    def rows(*columns: Answers) -> list[list[Any]]:
        return [
            [
                questions[key].prompt,
                *(items[key].text if key in items else None for items in columns),
                questions[key].truth,
                key[0],
            ]
            for key in _spread(questions)
        ]

    by_trial: dict[str, Table] = {}
    for name, trial_id in trial_by_model.items():
        columns = ["prompt", "answer", "target", "true answer", "set"]
        by_trial.setdefault(trial_id, {"columns": columns, "data": rows(answers[name], target)})
    columns = ["prompt", *answers, "target", "true answer", "set"]
    return AnswersTables({"columns": columns, "data": rows(*answers.values(), target)}, by_trial)


def _spread(questions: Answers) -> Iterator[tuple[str, str]]:
    """Yield the keys of at most 100 questions of each set, evenly spread."""
    for name in dict.fromkeys(["forget", "retain", *(set_name for set_name, _ in questions)]):
        keys = [key for key in questions if key[0] == name]
        yield from evenly_spread(keys, MAX_QUESTIONS)
