"""Check your own data set in a test: ``check_dataset(MINE, data_dir=folder, limit=20)``."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from trainables.data import DataSet, TaskData
from trainables.modality import MODALITIES


def check_dataset(record: DataSet, *, limit: int, data_dir: Path | None = None, **choices: Any) -> None:
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
    _check_fields(record)
    before = random.getstate()
    data = record.load(data_dir=data_dir, **choices)
    assert random.getstate() == before, "loading changes the global RNG; use a separate generator"
    _check_sets(record, data)
    again = record.load(data_dir=data_dir, **choices)
    assert again.content_hash == data.content_hash, "loading twice gives two different content hashes"
    limited = record.load(data_dir=data_dir, limit=limit, **choices)
    assert len(limited.retain) <= max(limit, record.unit), (
        f"limit {limit} keeps {len(limited.retain)} retain examples, expected at most {max(limit, record.unit)}"
    )
    assert len(limited.retain) % record.unit == 0, (
        f"limit {limit} does not keep a multiple of {record.unit} retain examples (the unit)"
    )
    assert _size(limited.retain) < _size(data.retain), f"limit {limit} does not reduce the retain set"
    assert _size(limited.full) <= _size(data.full), "a limit increases the data on which the target is trained"
    assert list(limited.forget) == list(data.forget), "a limit must not change the forget set"
    assert limited.content_hash != data.content_hash, "a limit must change the content hash"
    _check_sets(record, limited)


def _check_fields(record: DataSet) -> None:
    assert record.name == record.name.strip().lower() != "", f"the name must be in lower case, got '{record.name}'"
    assert record.modality in MODALITIES, (
        f"unknown modality '{record.modality}': expected one of {', '.join(MODALITIES)}"
    )
    assert record.description, "the description is empty"
    assert record.unit >= 1, f"the size of a unit must be at least one example, got {record.unit}"
    assert record.forget_split is None or record.forget_split in record.forget_splits, (
        f"the default split '{record.forget_split}' is not one of {', '.join(record.forget_splits)}"
    )
    assert (record.forget_split is None) == (not record.forget_splits), (
        "give both forget_split and forget_splits, or neither"
    )
    assert record.hub_id is None or record.files, (
        "a data set from the hub must also be readable from local files: describe them in the field 'files'"
    )


def _check_sets(record: DataSet, data: TaskData) -> None:
    assert data.modality == record.modality, (
        f"the modality of the data is {data.modality}, but the record says {record.modality}"
    )
    assert data.name.startswith(record.name), (
        f"the name of the data is '{data.name}', which does not start with the record's name '{record.name}'"
    )
    sets = {name: getattr(data, name) for name in ("forget", "retain", "full", "forget_eval", "retain_eval", "holdout")}
    kind = type(next(iter(data.forget), None))
    for name, part in sets.items():
        assert len(part) or name == "holdout", f"{name} is empty"
        assert len(list(part)) == len(part), f"{name} has length {len(part)} but iterates over {len(list(part))} items"
        assert {type(item) for item in part} <= {kind}, f"the items of {name} and of forget must have the same type"
    forget, retain, full, holdout = (set(part) for part in (data.forget, data.retain, data.full, data.holdout))
    assert not forget & retain, "an item is in both the forget and the retain set"
    assert not holdout & (full | forget | retain), "an item of holdout is also in full, forget or retain"
    if not record.learns_more:
        assert full == forget | retain, "full must contain the items of forget and retain, and no other items"
        assert len(data.full) == len(data.forget) + len(data.retain), (
            "full must contain each item of forget and retain only once"
        )
    alone = data.retain_task()
    assert list(alone.full) == list(data.retain), "the retain model must be trained on the items of retain"
    assert not set(alone.forget) & forget, "the retain model's data must not contain items to forget"
    assert alone.content_hash != data.content_hash, (
        "the retain model's data must have a different content hash than the target's data"
    )


def _size(part: Any) -> int:
    return sum(len(str(item)) for item in part)
