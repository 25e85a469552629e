"""The tables of answers for MLflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.report.answers_table import answers_tables
from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, trial

ANSWER: dict[str, Any] = {"trial_id": "00001", "epoch": None}


def write_items(out: Path, name: str, answers: dict[str, list[str]], *, log: str = "eval_log_forget.json") -> None:
    (out / "items").mkdir(exist_ok=True)
    texts = {str(number): [f"Q{number}", text, f"true {number}"] for number, text in enumerate(answers["texts"])}
    (out / "items" / f"{name}.json").write_text(json.dumps({log: {"generated_text": texts}}))


@pytest.fixture
def out(make_sweep: MakeSweep) -> Path:
    rows = [
        trial("00000", 3.0, 0.9, verbmem=0.05, utility=0.6, checkpoint="checkpoints/00000"),
        trial("00001", 3.0, 0.2, verbmem=0.04, utility=0.9, checkpoint="checkpoints/00001"),
    ]
    return make_sweep(rows)


def test_the_answers_of_a_model_are_beside_the_true_answers(out: Path) -> None:
    write_items(out, "00001", {"texts": ["one", "two"]})
    found = answers_tables(out, ANSWER)
    assert found is not None
    columns, data = found.all["columns"], found.all["data"]
    assert columns == ["prompt", "trial 00001", "target", "true answer", "set"]
    assert data == [["Q0", "one", None, "true 0", "forget"], ["Q1", "two", None, "true 1", "forget"]]
    assert found.by_trial == {"00001": {"columns": ["prompt", "answer", "target", "true answer", "set"], "data": data}}


def test_the_table_is_bounded_and_spread_over_the_questions(out: Path) -> None:
    write_items(out, "00001", {"texts": [f"answer {number}" for number in range(1000)]})
    found = answers_tables(out, ANSWER)
    assert found is not None
    assert [row[0] for row in found.all["data"]] == [f"Q{10 * number}" for number in range(100)]


def test_without_an_answer_or_recorded_texts_there_is_no_table(out: Path) -> None:
    assert answers_tables(out, ANSWER) is None
    assert answers_tables(out, None) is None
    assert answers_tables(out, {"trial_id": "", "epoch": None}) is None
    assert "answer" in write_report(out)
