"""Check your own data set in a test: ``check_dataset(MINE, data_dir=folder, limit=20)``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from trainables.data import DataSet, TaskData
from trainables.modality import MODALITIES


def check_dataset(dataset: DataSet, *, limit: int, data_dir: Path | None = None, **choices: Any) -> None:
    """Check the fields of a data set, and the data that it loads.

    The fields must be consistent. Loading twice must give the same data, without using the global RNG. Only the set
    holdout may be empty. No item may be both forgotten and retained. No item may be both held out and trained on. With
    a limit, the retain set must be smaller than without, and its size must be a multiple of ``DataSet.unit``.

    Args:
        limit: a number of retain examples, at least ``DataSet.unit`` and less than the size of the retain set.
        choices: ``forget_split`` or ``forget_class``, as for :meth:`DataSet.load`.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    _check_fields(dataset)
    rng_state = random.getstate()
    data = dataset.load(data_dir=data_dir, **choices)
    assert random.getstate() == rng_state, "loading changes the global RNG; use a separate generator"
    _check_sets(dataset, data)
    reloaded = dataset.load(data_dir=data_dir, **choices)
    assert reloaded.content_hash == data.content_hash, "loading twice gives two different content hashes"
    limited = dataset.load(data_dir=data_dir, limit=limit, **choices)
    assert len(limited.retain) <= max(limit, dataset.unit), (
        f"limit {limit} keeps {len(limited.retain)} retain examples, expected at most {max(limit, dataset.unit)}"
    )
    assert len(limited.retain) % dataset.unit == 0, (
        f"limit {limit} does not keep a multiple of {dataset.unit} retain examples (the unit)"
    )
    assert _size(limited.retain) < _size(data.retain), f"limit {limit} does not reduce the retain set"
    assert _size(limited.full) <= _size(data.full), "a limit increases the data on which the target is trained"
    assert list(limited.forget) == list(data.forget), "a limit must not change the forget set"
    assert limited.content_hash != data.content_hash, "a limit must change the content hash"
    _check_sets(dataset, limited)


def _check_fields(dataset: DataSet) -> None:
    is_lower_case = dataset.name != "" and dataset.name == dataset.name.strip().lower()
    assert is_lower_case, f"the name must be in lower case, got '{dataset.name}'"
    assert dataset.modality in MODALITIES, (
        f"unknown modality '{dataset.modality}': expected one of {', '.join(MODALITIES)}"
    )
    assert dataset.description, "the description is empty"
    assert dataset.unit >= 1, f"the size of a unit must be at least one example, got {dataset.unit}"
    assert dataset.forget_split is None or dataset.forget_split in dataset.forget_splits, (
        f"the default split '{dataset.forget_split}' is not one of {', '.join(dataset.forget_splits)}"
    )
    assert (dataset.forget_split is None) == (not dataset.forget_splits), (
        "give both forget_split and forget_splits, or neither"
    )
    assert dataset.hub_id is None or dataset.files, (
        "a data set from the hub must also be readable from local files: describe them in the field 'files'"
    )


def _check_sets(dataset: DataSet, data: TaskData) -> None:
    assert data.modality == dataset.modality, (
        f"the modality of the data is {data.modality}, but the record says {dataset.modality}"
    )
    assert data.name.startswith(dataset.name), (
        f"the name of the data is '{data.name}', which does not start with the record's name '{dataset.name}'"
    )
    sets = {name: getattr(data, name) for name in ("forget", "retain", "full", "forget_eval", "retain_eval", "holdout")}
    item_type = type(next(iter(data.forget), None))
    for name, items in sets.items():
        assert len(items) or name == "holdout", f"{name} is empty"
        assert len(list(items)) == len(items), (
            f"{name} has length {len(items)} but iterates over {len(list(items))} items"
        )
        assert {type(item) for item in items} <= {item_type}, (
            f"the items of {name} and of forget must have the same type"
        )
    forget = set(data.forget)
    retain = set(data.retain)
    full = set(data.full)
    holdout = set(data.holdout)
    assert not forget & retain, "an item is in both the forget and the retain set"
    assert not holdout & (full | forget | retain), "an item of holdout is also in full, forget or retain"
    if not dataset.learns_more:
        assert full == forget | retain, "full must contain the items of forget and retain, and no other items"
        assert len(data.full) == len(data.forget) + len(data.retain), (
            "full must contain each item of forget and retain only once"
        )
    retain_data = data.retain_task()
    assert list(retain_data.full) == list(data.retain), "the retain model must be trained on the items of retain"
    assert not set(retain_data.forget) & forget, "the retain model's data must not contain items to forget"
    assert retain_data.content_hash != data.content_hash, (
        "the retain model's data must have a different content hash than the target's data"
    )


def _size(items: Any) -> int:
    return sum(len(str(item)) for item in items)
