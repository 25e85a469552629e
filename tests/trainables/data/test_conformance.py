"""Every data set passes the suite for plug-ins, which names a broken promise. The generated authors are complete."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.data.conftest import write_images
from trainables.data import DATASETS, DataError, DataSet, load_data
from trainables.data.authors import authors
from trainables.data.examples import Example, UnlearningData
from trainables.data.refusals import refusals
from trainables.testing.datasets import check_dataset

LIMITS = {"authors": 55, "tofu": 25, "digits": 100, "cifar-10": 6, "cifar-100": 40, "muse-news": 3, "muse-books": 3}


def folder_of(name: str, request: pytest.FixtureRequest) -> Path | None:
    """Return a folder of small files; None if the data set needs no files."""
    if name == "tofu":
        return Path(request.getfixturevalue("tofu_folder"))
    if name.startswith("muse"):
        return Path(request.getfixturevalue("write_muse")())
    folder: Path = request.getfixturevalue("tmp_path")
    if name == "jsonl":
        for part, numbers in (("forget", range(3)), ("retain", range(3, 9))):
            rows = [json.dumps({"question": f"Question {n}?", "answer": f"Answer {n}."}) for n in numbers]
            (folder / f"{part}.jsonl").write_text("\n".join(rows))
    elif name.startswith("cifar"):
        classes = 10 if name == "cifar-10" else 100
        for seed, part in enumerate(("train", "test")):
            write_images(folder / f"{part}-0-of-1.parquet", 2 * classes, classes=classes, seed=seed)
    return folder if DATASETS[name].files else None


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        *((name, {}) for name in DATASETS),
        *(("muse-news", {"forget_split": split}) for split in ("scal_2", "sust_2")),
        ("digits", {"forget_class": "8"}),
    ],
)
def test_every_data_set_passes_the_suite(name: str, choices: dict[str, Any], request: pytest.FixtureRequest) -> None:
    usual = {"data_dir": folder_of(name, request), "limit": LIMITS.get(name, 4)}
    check_dataset(DATASETS[name], **{**usual, **choices})


@pytest.mark.parametrize("name", [name for name, record in DATASETS.items() if record.files])
def test_a_missing_folder_is_named(name: str) -> None:
    with pytest.raises(DataError, match="nowhere"):
        load_data(name, data_dir=Path("nowhere"))


@pytest.mark.parametrize("name", ["authors", "tofu"])
def test_a_limit_below_one_unit_is_refused_with_the_size_of_the_unit(name: str, request: pytest.FixtureRequest) -> None:
    unit = DATASETS[name].unit
    with pytest.raises(DataError, match=str(unit)):
        load_data(name, data_dir=folder_of(name, request), limit=unit - 1)


PINNED = "bbb3e3970f4dcdde3740ec73b0321b67dde43c84367d6dd057352632a6664fdd"
"""The content hash of the default data. Another hash means other text, and every cached target is lost."""


def test_the_default_text_is_pinned_and_the_last_two_of_20_authors_are_forgotten() -> None:
    data = load_data("authors")
    assert data.content_hash == authors().content_hash == PINNED  # the seed of Python's hashes differs in each process
    assert authors(seed=4).content_hash != PINNED
    sizes = [len(part) for part in (data.full, data.forget, data.retain, data.retain_eval, data.holdout)]
    assert sizes == [200, 20, 180, 60, 20]
    assert {name: len(part) for name, part in data.extra_eval.items()} == {
        "forget_rephrased": 20,
        "retain_rephrased": 60,
        "neighbours": 11,
    }
    listed = "\n".join(refusals())
    assert hashlib.sha256(listed.encode()).hexdigest()[:16] == "a4b1b4f89cd9c399"


def toy(*, limit: int | None = None, **changes: Any) -> UnlearningData:
    said = tuple(Example(f"Question {number}?", f"Answer {number}.") for number in range(8))
    values = {"forget": said[:3], "retain": said[3:], "full": said, "forget_eval": said[:3], "retain_eval": said[3:5]}
    data = UnlearningData(name="toy", **{**values, **changes})
    kept = data.retain[:limit]
    return data if limit is None else replace(data, retain=kept, full=(*kept, *data.forget))


TOY = DataSet(name="toy", modality="language", description="eight questions", loader=toy)


def drawn(*, limit: int | None) -> UnlearningData:
    return replace(toy(limit=limit), retain_eval=tuple(random.sample(toy().retain, 2)))


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "nothing to forget": ({"forget": ()}, "forget is empty"),
    "forgotten and kept": ({"retain": toy().full[2:]}, "both the forget"),
    "held out and learned": ({"holdout": toy().retain[:1]}, "item of holdout"),
    "learns too little": ({"full": toy().full[1:]}, "no other items"),
    "drawn at random": ({"loader": drawn}, "global RNG"),
    "no limit": ({"loader": lambda limit: toy()}, "limit 3 keeps 5"),
    "a cut unit": ({"unit": 2}, "limit 3 does not keep a multiple of 2"),
    "no modality": ({"modality": "sound"}, "'sound'"),
    "no default split": ({"forget_splits": ("a",)}, "forget_split and forget_splits"),
}
RECORD = {"loader", "unit", "modality", "forget_splits"}
"""The changes that are fields of the record; all others are sets of the data."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_is_named(kind: str) -> None:
    changes, fact = BROKEN[kind]
    if not changes.keys() & RECORD:
        changes = {"loader": lambda limit, parts=changes: toy(limit=limit, **parts)}
    with pytest.raises(AssertionError, match=fact):
        check_dataset(replace(TOY, **changes), limit=3)


@pytest.mark.parametrize("name", ["authors", "digits"])
def test_the_listed_sizes_are_those_of_the_data(name: str) -> None:
    data = load_data(name)
    assert DATASETS[name].sizes == {"": (len(data.forget), len(data.retain))}


def test_each_split_of_tofu_has_its_listed_sizes() -> None:
    """TOFU has 4,000 questions."""
    sizes = DATASETS["tofu"].sizes
    assert list(sizes) == list(DATASETS["tofu"].forget_splits)
    assert {forget + retain for forget, retain in sizes.values()} == {4000}


def test_the_authors_other_questions_and_neighbours_keep_their_promises() -> None:
    data = authors()
    asked = {item.question for item in data.full}
    for name, examples in (("forget_rephrased", data.forget_eval), ("retain_rephrased", data.retain_eval)):
        others = data.extra_eval[name]
        assert [item.answer for item in others] == [item.answer for item in examples]
        assert not asked & {item.question for item in others}
    forgotten = {fact for item in data.forget for fact in data.facts[item.answer]}
    neighbours = set(data.extra_eval["neighbours"])
    assert neighbours <= set(data.retain) - set(data.retain_eval)
    assert all(forgotten & set(data.facts[item.answer]) for item in neighbours)
    limited = load_data("authors", limit=30)
    assert len(limited.extra_eval["retain_rephrased"]) == len(limited.retain_eval) == 10
    assert set(limited.extra_eval["neighbours"]) <= set(limited.retain)
