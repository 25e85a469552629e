"""The configuration that represents a method, and how a configuration that lost all its seeds is shown."""

from __future__ import annotations

import csv
import io

import pytest

from analysis.report.comparison_text import FORMATS, comma_separated
from analysis.tables.note import note
from tests.analysis.comparison.conftest import GOOD, Compared, without
from tests.analysis.conftest import Row, trial

LOST: Row = {"status": "diverged"}
MISSED: Row = {"utility": 0.1}


def runs(lr: float, forget: float, *ends: Row) -> list[Row]:
    """Return the trials of one configuration, with a seed for each end. A high forget loss has a high hypervolume."""
    return [
        trial(f"{lr}-{seed}", forget, 0.5, **GOOD | {"lr": lr, "seed": seed} | end) for seed, end in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("many", "few", "label"),
    [
        ([{}, {}, LOST], [{}], "lr 0.001"),
        ([*[{}] * 9, MISSED], [{}] * 3, "lr 0.001"),
        ([*[{}] * 5, *[MISSED] * 5], [{}] * 3, "lr 0.01"),
        ([{}] * 3, [{}] * 3, "lr 0.01"),
        # Both hypervolumes are 0, so the finished trial ranks above the lost trial.
        ([LOST | {"forget_loss": 0.0}], [MISSED | {"forget_loss": 0.0, "retain_loss": 8.0}], "lr 0.01"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(len(value)),
)
def test_the_surest_success_is_shown_then_the_box_decides(
    compared: Compared, many: list[Row], few: list[Row], label: str
) -> None:
    """The configuration at 1e-2 (``few``) has the larger hypervolume."""
    table = compared([*runs(1e-3, 6.0, *many), *runs(1e-2, 7.9, *few)])
    assert without(table).label == label


def test_an_arm_that_lost_every_seed_is_not_one_that_was_never_run(compared: Compared) -> None:
    """ngdiff lost every seed with AutoLR. gdiff was only run without AutoLR, and lost every seed."""
    auto = [trial(f"1{seed}", None, None, seed=seed, auto_lr="on", **LOST) for seed in range(3)]
    other = [trial(f"2{seed}", None, None, seed=seed, method="gdiff", status="failed") for seed in range(2)]
    lost = compared([*runs(1e-4, 6.0, *[{}] * 3), *auto, *other])
    ngdiff, gdiff = lost.rows
    assert ngdiff.with_auto is not None
    assert (ngdiff.with_auto.seeds, ngdiff.with_auto.lost, ngdiff.with_auto.seed_numbers) == (0, 3, (0, 1, 2))
    assert (ngdiff.with_auto.success, ngdiff.with_auto.values) == (None, {})
    assert (without(lost, 1).seeds, without(lost, 1).lost) == (0, 2)
    assert gdiff.with_auto is None
    assert "| gdiff | – → – |" in FORMATS["md"]([lost])
    lacking = (("ngdiff with AutoLR", (("diverged", 3),)), ("gdiff", (("failed", 2),)))
    assert lost.notes == tuple(note("arm_without_finished_trial", arm=arm, ends=ends) for arm, ends in lacking)
    rows = [row for row in csv.DictReader(io.StringIO(comma_separated([lost]))) if row["seeds"] == "0"]
    assert [(row["method"], row["auto_lr"], row["lost"], row["seed_numbers"]) for row in rows] == [
        ("ngdiff", "on", "3", "0 1 2"),
        ("gdiff", "off", "2", "0 1"),
    ]
    assert {(row["metric"], row["mean"], row["success"], row["succeeded"]) for row in rows} == {("", "", "", "0")}
