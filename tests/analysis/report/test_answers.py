"""The answers that can be read on the report page: which models, questions, marks and distances."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from analysis.figures.vega import vega_script
from analysis.frontier.choice import choose_model
from analysis.frontier.frontier import frontier
from analysis.report.answers import (
    DIFFERS,
    FACT,
    answers_data,
    distance,
)
from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, tables_of, trial

LOGS = {"forget": "eval_log_forget.json", "retain": "eval_log.json"}
Texts = Mapping[str, Sequence[str]]


def write_answers(out: Path, name: str, texts: Texts, *, truth: str = "It was Ada Obi.", **facts: Any) -> None:
    """Write a log of items with an answer to each question of each set."""
    (out / "items").mkdir(exist_ok=True)
    log = {
        LOGS.get(set_name, set_name): {
            "generated_text": {
                str(i): [f"Question: Who is number {i}?\nAnswer:", text, truth] for i, text in enumerate(own)
            },
            **facts,
        }
        for set_name, own in texts.items()
    }
    (out / "items" / f"{name}.json").write_text(json.dumps(log))


def data_of(out: Path) -> Any:
    table, sweep = tables_of(out)
    return answers_data(table, sweep, choose_model(table, sweep), frontier(table.models, sweep.objectives))


@pytest.fixture
def out(make_sweep: MakeSweep) -> Path:
    """The second trial is the chosen model, and the others are runners-up."""
    return make_sweep([trial("00000", 3.0, 0.9), trial("00001", 3.0, 0.2), trial("00002", 1.0, 0.9)])


def test_differences_from_the_target_and_facts_are_marked(out: Path) -> None:
    facts = {"true_facts": {"0": [[2, 4]]}, "told_facts": {"0": [[2, 4]]}}
    write_answers(out, "target-0011", {"forget": ["It was Ada Obi."]}, **facts)
    write_answers(out, "00001", {"forget": ["It was Ada Obi."]}, **facts)
    write_answers(out, "00000", {"forget": ["He was Ada Obi, too."]}, **facts)
    write_answers(out, "never-saw-0011", {"forget": ["It was Bo."]})
    found = data_of(out)
    assert found["questions"]["text"] == ["Question: Who is number 0?\nAnswer:"], "one prompt shows no template"
    assert found["questions"]["truth"] == [["It was ", 0, "Ada Obi.", FACT]]
    assert (found["target"], found["facts"]) == ([["It was ", 0, "Ada Obi.", FACT]], True)
    assert found["never_saw"] == [["It was ", 0, "Bo.", DIFFERS]]
    answers = {item["trial"]: (item["answers"], item["distance"]) for item in found["models"]}
    assert answers["00001"] == ([0], [0])
    changed = ["He ", DIFFERS, "was ", 0, "Ada ", FACT, "Obi, ", DIFFERS | FACT, "too.", DIFFERS]
    assert answers["00000"] == ([changed], [round(100 * distance("It was Ada Obi.", "He was Ada Obi, too."))])


def test_the_distance_is_the_share_of_words_that_two_answers_do_not_share() -> None:
    assert distance("a b c d", "a b c d") == 0
    assert distance("a b c d", "a x c d") == 0.25
    assert distance("a b", "x y z") == 1
    assert (distance("", ""), distance("", "a")) == (0, 1)


def test_without_the_targets_answers_the_true_answers_are_compared(out: Path) -> None:
    write_answers(out, "00001", {"retain": ["It was Ada Obi.", "It was Bo Obi."]})
    found = data_of(out)
    assert (found["target"], found["never_saw"], found["facts"]) == (None, None, False)
    assert found["models"][0]["answers"] == [0, ["It was ", 0, "Bo ", DIFFERS, "Obi.", 0]]
    assert found["questions"]["text"] == ["Who is number 0?", "Who is number 1?"]


def test_the_recommended_model_its_runners_up_and_the_frontier_come_first(out: Path) -> None:
    for name in ("00002", "00000", "00001"):
        write_answers(out, name, {"forget": ["yes"], "questions/towns": ["no"]})
    found = data_of(out)
    assert [item["trial"] for item in found["models"]] == ["00001", "00000", "00002"]
    assert [item["role"] for item in found["models"]] == ["closest", "runner-up", "runner-up"]
    sets = [(item["name"], item["label"], item["group"]) for item in found["sets"]]
    assert sets == [("forget", "to forget", "forget"), ("questions/towns", "towns", "own")]


def test_a_model_without_stored_answers_or_with_another_target_is_left_out(make_sweep: MakeSweep) -> None:
    rows = [trial(str(number), 3.0, 0.2 + number / 10, target_key=str(number // 2)) for number in range(4)]
    out = make_sweep(rows)
    assert data_of(out) is None
    for name in ("0", "2", "3"):
        write_answers(out, name, {"forget": ["yes"]})
    assert [item["trial"] for item in data_of(out)["models"]] == ["0"]


def test_models_questions_and_texts_are_bounded(make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, limit in (("MODELS", 3), ("QUESTIONS", 10), ("QUESTIONS_IN_ALL", 22), ("CHARACTERS", 40)):
        monkeypatch.setattr(f"analysis.report.answers.MAX_{name}", limit)
    out = make_sweep([trial(f"{number:05d}", 3.0, number / 100) for number in range(5)])
    for number in range(5):
        write_answers(out, f"{number:05d}", {"forget": ["word " * 20] * 25, "retain": ["y" * 80] * 12})
    found = data_of(out)
    assert len(found["models"]) == 3
    assert [item["total"] for item in found["sets"]] == [25, 12]
    numbers = [int(number) for number in found["questions"]["number"]]
    assert numbers[:10] == [0, 2, 5, 7, 10, 12, 15, 17, 20, 22]
    assert len(numbers) == 10 + 10
    for text in found["models"][0]["answers"]:
        assert 35 <= len(text if isinstance(text, str) else text[0]) <= 41
    monkeypatch.setattr("analysis.report.answers.MAX_QUESTIONS_IN_ALL", 12)
    assert len(data_of(out)["questions"]["number"]) == 6 + 6


EVIL = "</script><script>alert(1)</script>\"'<img src=x onerror=alert(2)>\x00\x1b[31m"


@pytest.mark.usefixtures("blank_figures")
def test_html_and_control_characters_in_answers_are_inert_text(out: Path) -> None:
    write_answers(out, "00001", {"forget": [EVIL, "fine"], EVIL: [EVIL]}, truth=EVIL)
    write_report(out)
    source = (out / "report.html").read_text(encoding="utf-8").replace(vega_script(), "")
    assert all(tag.startswith('<img src="data:image/svg+xml;base64,') for tag in re.findall("<img[^>]*", source))
    assert source.count("<script") == source.count("</script>")
    assert not any(mark in source for mark in ("\x00", "\x1b", "\\u0000", "\\u001b"))


@pytest.mark.usefixtures("blank_figures")
def test_a_report_elsewhere_has_the_answers_of_its_source_and_a_page_without_answers_says_so(
    out: Path, tmp_path: Path
) -> None:
    write_report(tmp_path / "before", [out])
    assert "No generated answers are stored" in (tmp_path / "before" / "report.html").read_text()
    write_answers(out, "00001", {"forget": ["told elsewhere"]})
    write_report(tmp_path / "new" / "folder", [out])
    assert "told elsewhere" in (tmp_path / "new" / "folder" / "report.html").read_text()
