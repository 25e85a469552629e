"""MUSE's files have the roles of its paper; its prompts equal texts written by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.trainables.data.conftest import WriteMuse
from trainables.data import DataError, load_data
from trainables.data.examples import Example, Prompted
from trainables.data.muse import load_muse

LIVES = "{} moved to {} and lives there in a house by the river."
EATS = "Every morning {} eats {} at the market before work."


def paragraphs(examples: tuple[Example, ...]) -> list[list[str]]:
    assert all(example.is_text for example in examples)
    return [example.answer.split("\n\n") for example in examples]


def test_each_corpus_is_one_text_and_membership_is_judged_on_privleak(write_muse: WriteMuse) -> None:
    data = load_muse("muse-news", data_dir=write_muse())
    lives = [LIVES.format(who, town) for who, town in (("Ada", "Oslo"), ("Bo", "Lima"), ("Cleo", "Quito"))]
    (forget,), (retain,) = paragraphs(data.forget), paragraphs(data.retain)
    assert (data.name, len(forget), forget[:3]) == ("muse-news/forget", 4, lives)
    assert retain[0] == EATS.format("Ada", "plums")
    assert [len(texts) for texts in paragraphs(data.full)] == [8, 4, 4]
    assert paragraphs(data.forget_eval) == [[text] for text in lives[:2]]
    assert paragraphs(data.retain_eval) == [[EATS.format("Esme", "cheese")], [EATS.format("Finn", "bread")]]
    assert paragraphs(data.holdout)[0] == ["Nobody has heard of Ada, the baker of Turin."]


def test_a_question_follows_the_answered_ones_and_a_passage_is_continued(write_muse: WriteMuse) -> None:
    data = load_muse("muse-news", data_dir=write_muse())
    assert data.prompted["knowmem_forget"][0] == Prompted(
        prompt=(
            "Question: Where does Ada live?\nAnswer: Oslo\n\n"
            "Question: Where does Bo live?\nAnswer: Lima\n\n"
            "Question: Where does Cleo live?\nAnswer:"
        ),
        reference="Quito",
        max_new_tokens=32,
        stop=("\n\n", "\nQuestion", "Question:"),
    )
    assert [len(items) for items in data.prompted.values()] == [4, 2, 2]
    passage = data.prompted["verbmem"][0]
    assert passage.prompt + passage.reference == LIVES.format("Ada", "Oslo")
    assert (passage.max_new_tokens, passage.stop) == (128, ())


ALL_PROMPTED = {"verbmem", "knowmem_forget", "knowmem_retain"}


@pytest.mark.parametrize(
    ("split", "articles", "judged", "asked"),
    [
        ("scal_3", "Ada Bo Cleo Dov Esme Finn", "Ada Bo", ALL_PROMPTED),
        ("sust_1", "Ada Bo", "Ada Bo", ALL_PROMPTED),
        ("sust_3", "Esme Finn", "Esme Finn", {"knowmem_retain"}),
    ],
)
def test_a_later_request_is_judged_on_its_own_texts(
    write_muse: WriteMuse, split: str, articles: str, judged: str, asked: set[str]
) -> None:
    """MUSE's passages and questions are about the first request; sust_2 to sust_4 have other texts."""
    data = load_data("muse-news", forget_split=split, data_dir=write_muse())
    assert " ".join(text.split()[0] for text in paragraphs(data.forget)[0]) == articles
    assert " ".join(text.split()[0] for (text,) in paragraphs(data.forget_eval)) == judged
    assert set(data.prompted) == asked


def test_the_hub_has_every_split_but_no_growing_forget_sets_of_books(
    write_muse: WriteMuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_muse()

    def from_folder(repository: str, name: str, split: str) -> list[dict[str, Any]]:
        assert repository == "muse-bench/MUSE-News"
        return [json.loads(line) for line in (folder / name / f"{split}.json").read_text().splitlines()]

    monkeypatch.setattr("datasets.load_dataset", from_folder)
    assert load_data("muse-news", forget_split="scal_2") == load_muse(
        "muse-news", forget_split="scal_2", data_dir=folder
    )
    with pytest.raises(DataError, match=r"scal_2 for muse-books.*--data-dir"):
        load_muse("muse-books", forget_split="scal_2")
