"""Every data set passes the suite, which names a broken promise."""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.trainables.data.conftest import write_images
from trainables.data import DATASETS, DataError, DataSet, load_data
from trainables.data.authors import authors
from trainables.data.examples import Example, UnlearningData
from trainables.data.tofu import tofu_files
from trainables.testing.datasets import check_dataset

TOFU = Path(os.environ.get("TOFU_DATA_DIR", "../shared/data/tofu"))
LIMITS = {"authors": 55, "tofu": 25, "digits": 100, "cifar-10": 6, "cifar-100": 40, "muse-news": 3, "muse-books": 3}


def write_cifar(folder: Path, name: str) -> Path:
    """Two images of each class in each file."""
    classes = 10 if name == "cifar-10" else 100
    for seed, split in enumerate(("train", "test")):
        write_images(folder / f"{split}-0.parquet", 2 * classes, classes=classes, seed=seed)
    return folder


def write_jsonl(folder: Path) -> Path:
    for name, numbers in (("forget", range(3)), ("retain", range(3, 9))):
        rows = [{"question": f"Question {number}?", "answer": f"Answer {number}."} for number in numbers]
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


@pytest.fixture
def files_of(
    tmp_path: Path, write_muse: Callable[..., Path], write_tofu: Callable[..., Path]
) -> Callable[[DataSet], Path | None]:
    """A folder of small files for a data set that needs files."""

    def write(record: DataSet) -> Path | None:
        if record.files is None:
            return None
        if record.name == "tofu":
            return write_tofu()
        if record.name == "jsonl":
            return write_jsonl(tmp_path)
        return write_cifar(tmp_path, record.name) if record.name.startswith("cifar") else write_muse()

    return write


@pytest.mark.parametrize("record", DATASETS.values(), ids=list(DATASETS))
def test_every_data_set_passes_the_suite(record: DataSet, files_of: Callable[[DataSet], Path | None]) -> None:
    check_dataset(record, data_dir=files_of(record), limit=LIMITS.get(record.name, 4))


@pytest.mark.parametrize("split", DATASETS["muse-news"].forget_splits)
def test_every_forget_set_of_muse_passes_it(split: str, write_muse: Callable[..., Path]) -> None:
    check_dataset(DATASETS["muse-news"], data_dir=write_muse(), limit=3, forget_split=split)


@pytest.mark.parametrize("split", DATASETS["tofu"].forget_splits)
def test_every_forget_set_of_the_published_tofu_passes_it(split: str) -> None:
    if not all((TOFU / f"{name}.json").is_file() for name in tofu_files(split).values()):
        pytest.skip(f"TOFU's files are not in {TOFU} (set TOFU_DATA_DIR)")
    check_dataset(DATASETS["tofu"], data_dir=TOFU, limit=410, forget_split=split)


def test_another_class_of_images_passes_it() -> None:
    check_dataset(DATASETS["digits"], limit=50, forget_class="8")


def test_an_unknown_name_never_loads_other_data() -> None:
    with pytest.raises(DataError, match=r"'author'.*'authors'.*authors, tofu"):
        load_data("author")


def test_the_registry_of_data_sets_imports_no_heavy_library() -> None:
    heavy = "{'torch', 'sklearn', 'pandas', 'transformers'}"
    script = f"import sys, trainables.data, trainables.modality; print({heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# Broken promises ------------------------------------------------------------------------------------------------


def _toy(**changes: Any) -> UnlearningData:
    said = tuple(Example(f"Question {number}?", f"Answer {number}.") for number in range(8))
    values = {"forget": said[:3], "retain": said[3:], "full": said, "forget_eval": said[:3], "retain_eval": said[3:5]}
    return UnlearningData(name="toy", **{**values, **changes})


def _load_toy(*, limit: int | None, **changes: Any) -> UnlearningData:
    data = _toy(**changes)
    kept = data.retain[:limit]
    return replace(data, retain=kept, full=(*kept, *data.forget)) if limit is not None else data


TOY = DataSet(name="toy", modality="language", description="eight questions", loader=_load_toy)


def test_a_data_set_is_one_file_and_one_record() -> None:
    check_dataset(TOY, limit=3)


def _spoiled(**changes: Any) -> Callable[..., UnlearningData]:
    return lambda *, limit: _load_toy(limit=limit, **changes)


def _drawn(*, limit: int | None) -> UnlearningData:
    data = _load_toy(limit=limit)
    return replace(data, retain_eval=tuple(random.sample(data.retain, 2)))


CALLS = itertools.count()


def _always_new(*, limit: int | None) -> UnlearningData:
    return replace(_load_toy(limit=limit), name=f"toy {next(CALLS)}")


BROKEN: dict[str, tuple[DataSet, str]] = {
    "nothing to forget": (replace(TOY, loader=_spoiled(forget=())), "forget is empty"),
    "forgotten and kept": (replace(TOY, loader=_spoiled(retain=_toy().full[2:])), "both the forget"),
    "held out and learned": (replace(TOY, loader=_spoiled(holdout=_toy().retain[:1])), "held out"),
    "learns too little": (replace(TOY, loader=_spoiled(full=_toy().full[1:])), "nothing else"),
    "another kind of item": (replace(TOY, loader=_spoiled(holdout=("text",))), "holdout"),
    "drawn at random": (replace(TOY, loader=_drawn), "random state"),
    "other data each time": (replace(TOY, loader=_always_new), "content hashes"),
    "no limit": (replace(TOY, loader=lambda limit: _toy()), "limit 3 keeps 5"),
    "a cut unit": (replace(TOY, unit=2), "limit 3 cuts"),
    "no modality": (replace(TOY, modality="sound"), "'sound'"),
    "no default split": (replace(TOY, forget_splits=("a",)), "default"),
    "a folder for nothing": (replace(TOY, files="anything", loader=lambda limit, data_dir=None: _toy()), "DataError"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_is_named(kind: str) -> None:
    record, fact = BROKEN[kind]
    with pytest.raises(AssertionError, match=fact):
        check_dataset(record, limit=3)


def test_a_choice_that_does_not_apply_is_refused() -> None:
    for choice in ({"forget_split": "forget01"}, {"forget_class": "3"}, {"data_dir": Path("here")}):
        with pytest.raises(DataError, match="authors"):
            DATASETS["authors"].load(**choice)  # type: ignore[arg-type]
    assert DATASETS["authors"].load() == authors()
