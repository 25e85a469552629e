"""Example answers of the recommended model and of the target."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.report.example_answers import example_answers
from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, trial

QUESTIONS = ("Who wrote it?", "Where is it?", "When was it?", "What is it?", "Why is it?", "Who read it?")


def items(answer: str) -> dict[str, object]:
    """A per-item log with one answer to every question of both sets."""
    rows = {str(i): [f"Q: {text}\nA:", f"{answer} {i}", f"reference {i}"] for i, text in enumerate(QUESTIONS)}
    return {part: {"generated_text": rows} for part in ("eval_log.json", "eval_log_forget.json")}


def write(out: Path, **logs: dict[str, object]) -> None:
    (out / "items").mkdir(parents=True)
    for name, content in logs.items():
        (out / "items" / f"{name.replace('_', '-')}.json").write_text(json.dumps(content))


def test_answers_are_spread_over_the_set_with_changed_words_marked(tmp_path: Path) -> None:
    write(tmp_path, t1_epoch_2=items("it is gone"), target_key=items("it is here"))
    found = example_answers(tmp_path, "checkpoints/t1-epoch-2", "key")
    assert found is not None
    assert found.is_target
    assert [question for question, _, _ in found.retain.examples] == [QUESTIONS[i] for i in (0, 1, 2, 3, 4)]
    assert (found.retain.same, found.retain.total) == (0, 6)
    assert found.forget.examples[0] == (
        "Who wrote it?",
        (("it is", False), ("here", True), ("0", False)),
        (("it is", False), ("gone", True), ("0", False)),
    )


def test_without_the_targets_answers_those_of_the_data_set_are_compared(tmp_path: Path) -> None:
    write(tmp_path, t1=items("reference"))
    found = example_answers(tmp_path, "checkpoints/t1", "key")
    assert found is not None
    assert (found.is_target, found.forget.examples[0][1]) == (False, (("reference 0", False),))
    assert found.retain.same == found.retain.total
    assert example_answers(tmp_path, "checkpoints/t2", "key") is None


@pytest.mark.usefixtures("blank_figures")
def test_the_page_shows_them_with_marks(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 6.0, 0.2)])
    write(out, **{"0": items("it is <gone>")}, target_0011=items("it is here"))
    write_report(out)
    page = (out / "report.html").read_text()
    assert "0 of 6 answers" in page
    assert page.count("it is <mark>&lt;gone&gt;</mark>") == 10
