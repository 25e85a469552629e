"""The forget, retain and holdout sets of labelled images, and the hashes that name them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn import datasets

from trainables.data.digits import load_digits
from trainables.data.images import ImageData, ImageSet, LabelledImages, forget_one_class

DOGS = list(range(1, 24, 3))
OTHERS = [row for row in range(24) if row % 3 != 1]


def images(*, changed: int = 0) -> LabelledImages:
    """Thirty random images; the label of image i is i modulo 3."""
    pixels = np.random.default_rng(0).integers(0, 256, (30, 4, 4, 3), dtype=np.uint8)
    pixels[7, 0, 0, 0] += changed
    labels = np.arange(30, dtype=np.int64) % 3
    return LabelledImages(pixels, labels, ("cat", "dog", "emu"), 255, (0.5,) * 3, (0.25,) * 3)


def problem(source: LabelledImages | None = None, **changes: Any) -> ImageData:
    """Images 0 to 23 are the training images, 24 to 29 the test images."""
    values = {"dataset": "zoo", "held_out": np.arange(30) >= 24, "forget_class": "dog"}
    return forget_one_class(source or images(), **{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "name", "forget", "retain", "full", "holdout"),
    [
        ({}, "zoo/dog", DOGS, OTHERS, [*range(24)], [24, 26, 27, 29]),
        ({"limit": 4}, "zoo/dog", DOGS, OTHERS[::4], [*OTHERS[::4], *DOGS], [24, 26, 27, 29]),
        ({"forget_class": "1", "max_forget": 3}, "zoo/dog", DOGS[:3], OTHERS, [*range(24)], [24, 26, 27, 29]),
    ],
    ids=["all", "limit", "maximum, and the class by number"],
)
def test_one_class_is_forgotten_and_the_others_are_retained(
    changes: dict[str, Any], name: str, forget: list[int], retain: list[int], full: list[int], holdout: list[int]
) -> None:
    data = problem(**changes)
    assert np.array_equal(data.forget.take([2, 0])[0], images().pixels[[7, 1]])
    found = [[*part] for part in (data.forget, data.retain, data.full, data.holdout, data.forget_eval)]
    assert (data.name, *found) == (name, forget, retain, full, holdout, forget)


def test_equal_content_has_equal_hashes_and_any_change_another_one() -> None:
    first = problem()
    assert problem().content_hash == first.content_hash
    others = [
        problem(images(changed=1)),
        problem(replace(images(), labels=images().labels[::-1].copy())),
        problem(replace(images(), mean=(0.4,) * 3)),
        problem(replace(images(), classes=("cat", "dog", "eel"))),
        problem(forget_class="cat"),
        problem(limit=5),
        problem(held_out=np.arange(30) >= 23),
    ]
    assert len({item.content_hash for item in (first, *others)}) == 1 + len(others)
    assert ImageSet(first.source, first.full.rows[::-1]).content_hash != first.full.content_hash


def test_digits_are_those_of_scikit_learn() -> None:
    data, bunch = load_digits(), datasets.load_digits()
    assert data.name == "digits/3"
    # Computed once from scikit-learn's file: a change means that cached targets are no longer found.
    assert data.content_hash[:16] == "15d7472c2a3b4e89"
    assert np.array_equal(data.source.pixels[..., 0], bunch.images)
    assert np.array_equal(data.source.labels, bunch.target)
    scaled = data.source.pixels[data.full.rows] / 16
    assert data.source.mean == pytest.approx((scaled.mean(),), abs=1e-5)
    assert data.source.std == pytest.approx((scaled.std(),), abs=1e-5)
