"""The forget, retain and holdout sets of labelled images, and the hashes that name them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import datasets

from trainables.data import load_data
from trainables.data.digits import load_digits
from trainables.data.images import ImageData, ImageSet, LabelledImages, forget_one_class

CLASSES = ("cat", "dog", "emu")


def images(*, changed: int = 0) -> LabelledImages:
    """Thirty random images; the label of image i is i modulo 3."""
    pixels = np.random.default_rng(0).integers(0, 256, (30, 4, 4, 3), dtype=np.uint8)
    pixels[7, 0, 0, 0] += changed
    labels = np.arange(30, dtype=np.int64) % 3
    return LabelledImages(pixels, labels, CLASSES, 255, (0.5,) * 3, (0.25,) * 3)


def problem(source: LabelledImages | None = None, **changes: object) -> ImageData:
    """Images 0 to 23 are the training images, 24 to 29 the test images."""
    rows = np.arange(30, dtype=np.int64)
    values: dict[str, object] = {"dataset": "zoo", "train": rows[:24], "test": rows[24:], "forget_class": "dog"}
    return forget_one_class(source or images(), **{**values, **changes})  # type: ignore[arg-type]


def test_one_class_is_forgotten_and_all_others_are_retained() -> None:
    data = problem()
    assert data.name == "zoo/dog"
    assert problem(forget_class="2").name == problem(forget_class="emu").name == "zoo/emu"
    assert data.forget.rows.tolist() == [1, 4, 7, 10, 13, 16, 19, 22]
    assert sorted([*data.forget.rows, *data.retain.rows]) == list(range(24)) == data.full.rows.tolist()
    assert set(data.retain.labels) == {0, 2}
    assert data.forget_eval.rows.tolist() == data.forget.rows.tolist()
    assert data.holdout.rows.tolist() == [24, 26, 27, 29]  # no dog: it measures the retained classes
    pixels, labels = data.forget.take([2, 0])
    assert np.array_equal(pixels, images().pixels[[7, 1]])
    assert labels.tolist() == [1, 1]


def test_images_of_the_class_beyond_the_maximum_are_in_neither_set() -> None:
    data = problem(most=3)
    assert data.forget.rows.tolist() == [1, 4, 7]
    assert not set(data.retain.rows) & set(range(1, 24, 3))
    assert len(data.full) == 24


def test_a_limit_spreads_the_retain_images_and_shrinks_the_full_set() -> None:
    data = problem(limit=4)
    retained = problem().retain.rows
    assert data.retain.rows.tolist() == [retained[0], retained[4], retained[8], retained[12]]
    assert sorted(data.full.rows) == sorted([*data.forget.rows, *data.retain.rows])


def test_equal_content_has_equal_hashes_and_any_change_another_one() -> None:
    first = problem()
    assert problem().content_hash == first.content_hash
    assert problem().full.content_hash == first.full.content_hash
    others = [
        problem(images(changed=1)),
        problem(replace(images(), labels=images().labels[::-1].copy())),
        problem(replace(images(), mean=(0.4,) * 3)),
        problem(replace(images(), classes=("cat", "dog", "eel"))),
        problem(forget_class="cat"),
        problem(limit=5),
        problem(test=np.arange(24, 28)),
    ]
    assert len({item.content_hash for item in (first, *others)}) == 1 + len(others)
    assert ImageSet(first.source, first.full.rows[::-1]).content_hash != first.full.content_hash


def test_digits_are_those_of_scikit_learn() -> None:
    data, bunch = load_digits(), datasets.load_digits()
    assert data.name == "digits/3"
    # Computed once from scikit-learn's file: a change means that cached targets are no longer found.
    assert data.content_hash[:16] == "777afaa07a3b57e2"
    assert np.array_equal(data.source.pixels[..., 0], bunch.images)
    assert np.array_equal(data.source.labels, bunch.target)
    assert set(data.forget.labels) == {3}
    assert 3 not in data.retain.labels
    assert not set(data.full.rows) & set(data.holdout.rows)
    scaled = data.source.pixels[data.full.rows] / 16
    assert data.source.mean == pytest.approx((scaled.mean(),), abs=1e-5)
    assert data.source.std == pytest.approx((scaled.std(),), abs=1e-5)
    other = load_data("digits", forget_class="8", limit=90)
    assert (other.name, len(other.retain), len(set(other.retain.labels))) == ("digits/8", 90, 9)
