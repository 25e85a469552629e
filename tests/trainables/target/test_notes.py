"""The notes about data before any work: answers that are cut, and rows that are to be forgotten and retained."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.facts import assert_names
from trainables.data import DataError, load_data
from trainables.data.examples import Example, UnlearningData
from trainables.data.images import LabelledImages, forget_one_class
from trainables.data.overlap import Overlap, overlap
from trainables.spec import TrialSpec
from trainables.target.notes import data_notes
from trainables.target.target import TargetSpec, target_spec_of

IGNORED = "case, spaces or punctuation"


def data_of(forget: list[Example], retain: list[Example]) -> UnlearningData:
    return UnlearningData("own", tuple(forget), tuple(retain), (*retain, *forget), tuple(forget), tuple(retain))


def test_rows_that_differ_by_case_spaces_or_punctuation_are_common_and_others_are_not() -> None:
    forget = [Example("Where does Ada live?", "In Évora."), Example("Who?", "Bo."), Example("+", "-")]
    retain = [Example("where does ADA  live", "in E\u0301vora!"), Example("Who?", "Cleo."), Example("+", "*")]
    assert overlap(data_of(forget, retain)) == Overlap("row", ("Where does Ada live? In Évora.",), 3, IGNORED)


def test_passages_of_a_corpus_are_compared() -> None:
    common = "The river rose in March, and nobody in the village slept that night."
    forget = Example("", f"Chapter 1\n\nOne two three four five six seven eight.\n\n{common}")
    retain = Example("", f"Chapter 1\n\n{common.upper()}\n\nNine ten eleven twelve thirteen fourteen fifteen sixteen.")
    assert overlap(data_of([forget], [retain])) == Overlap("passage", (common,), 2, IGNORED)


def test_images_are_compared_by_their_pixels() -> None:
    pixels = np.array([0, 7, 7, 5], np.uint8).repeat(4).reshape(4, 2, 2, 1)
    images = LabelledImages(pixels, np.array([0, 0, 1, 1]), ("a", "b"), white=9, mean=(0.0,), std=(1.0,))
    data = forget_one_class(images, dataset="own", held_out=np.zeros(4, bool), forget_class="a")
    assert overlap(data) == Overlap("image", ("image 1",), 2)


@pytest.mark.parametrize("dataset", ["authors", "digits"])
def test_the_generated_data_have_no_common_rows(dataset: str) -> None:
    assert overlap(load_data(dataset)).items == ()


def write(folder: Path, **files: list[tuple[str, str]]) -> TargetSpec:
    for name, rows in files.items():
        lines = [json.dumps({"question": question, "answer": answer}) for question, answer in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return target_spec_of(TrialSpec(dataset="jsonl", data_dir=str(folder), max_length=40))


def test_answers_that_are_cut_and_common_rows_are_counted(tmp_path: Path) -> None:
    long, short = " ".join(f"w{number}x" for number in range(60)), "In Oslo."
    forget = [(f"Where does person {n} live?", long if n < 3 else short) for n in range(10)]
    retain = [("Where does person 4 live", "in Oslo!"), ("Where does person 11 live?", short)]
    common, cut = data_notes(write(tmp_path, forget=forget, retain=retain))
    assert_names(
        common, "1 of 10 rows of the forget set is also in the retain set", "'Where does person 4 live? In Oslo.'"
    )
    assert_names(cut, "3 of 10 answers of forget are longer than --max-length 40 tokens:")
    assert data_notes(write(tmp_path, forget=forget[3:], retain=retain[1:])) == []


def test_paraphrased_and_perturbed_answers_that_are_cut_are_counted(tmp_path: Path) -> None:
    """If their ends are cut, a truth ratio compares only their beginnings, which may be equal."""
    long = " ".join(f"w{number}x" for number in range(60))
    forget, retain = ("Where does Ada live?", "In Oslo."), ("Where does Bo live?", "In Rome.")
    spec = write(tmp_path, forget=[forget], retain=[retain])
    choices = {"paraphrased_answer": "She lives in Oslo.", "perturbed_answer": [f"{long} in Riga.", "In Lima."]}
    row = {"question": forget[0], "answer": forget[1], **choices}
    (tmp_path / "forget.jsonl").write_text(json.dumps(row), encoding="utf-8")
    (note,) = data_notes(target_spec_of(spec.trial))
    assert_names(note, "1 of 3 answers of forget (paraphrased or perturbed) is longer than --max-length 40 tokens:")


def test_question_sets_that_no_metric_is_measured_on_are_named(tmp_path: Path) -> None:
    rows = {"forget": [("Where does Ada live?", "In Oslo.")], "retain": [("Where does Bo live?", "In Rome.")]}
    spec = write(tmp_path, **rows, neighbours=[("Where does Cy live?", "In Riga.")])
    (note,) = data_notes(spec)
    assert_names(note, "neighbour_fact_recall", "--metrics default,facts")
    assert data_notes(replace(spec, trial=replace(spec.trial, metrics=("default", "facts")))) == []


def test_an_example_of_common_rows_is_shown_once(tmp_path: Path) -> None:
    forget = [("Where?", "In Oslo."), ("Where?", "In Oslo."), ("When?", "Never.")]
    (note,) = data_notes(write(tmp_path, forget=forget, retain=forget[:1]))
    assert_names(note, "2 of 3 rows")
    assert note.count("In Oslo.") == 1


def test_a_forget_set_that_is_retained_completely_is_refused(tmp_path: Path) -> None:
    rows = [(f"Where does person {n} live?", f"In town {n}.\x1b") for n in range(3)]
    spec = write(tmp_path, forget=rows, retain=[(question.upper(), answer) for question, answer in rows])
    with pytest.raises(DataError) as refusal:
        data_notes(spec)
    assert_names(refusal.value, "3 of 3 rows", "person 0", "person 1", "␛")
    assert "person 2" not in str(refusal.value)
