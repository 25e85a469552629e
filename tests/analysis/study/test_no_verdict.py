"""If there is no verdict, the headline, the page and lr_study.json name the reason."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from analysis.report.render import note_text
from analysis.report.study_text import study_content, study_lines
from analysis.study.lr_study import LrStudy, read_study
from tests.analysis.conftest import MakeRow, MakeSweep, Row
from tests.analysis.study.conftest import FAILED, PEAK

Make = Callable[..., LrStudy]
SETTINGS = {"kind": "lr-study", "sampler": "grid"}


def rows_of(
    row: MakeRow, *, hand: Sequence[int] = range(6), auto: Sequence[int] = range(6), **fields: object
) -> list[Row]:
    """Return runs at fixed rates and with AutoLR; no run collapsed."""
    fixed = [row(volume, lr, seed, utility=0.8, **fields) for seed in hand for lr, volume in PEAK.items()]
    return fixed + [row(0.45, 1e-4, seed, auto=True, utility=0.8, **fields) for seed in auto]


def failed(rows: list[Row], *, auto: str = "on", **fields: object) -> list[Row]:
    """Return the rows; those of one side that have these fields failed."""
    wanted = {"auto_lr": auto} | fields
    return [item | FAILED if wanted.items() <= item.items() else item for item in rows]


@pytest.fixture
def study(make_sweep: MakeSweep) -> Make:
    def make(rows: list[Row], primary: str | None = None) -> LrStudy:
        return read_study([make_sweep(rows, name=str(len(rows)), settings=SETTINGS | {"primary": primary})])

    return make


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (lambda row: rows_of(row, auto=()), "no_auto_lr"),
        (lambda row: rows_of(row, hand=()), "no_fixed_rate"),
        (lambda row: rows_of(row, auto=range(6, 12)), "no_whole_seed"),
        (lambda row: failed(rows_of(row), auto="off", lr=1e-3), "no_whole_seed"),
        (lambda row: rows_of(row) + rows_of(row, auto=(), c=0.9), "no_whole_seed"),
    ],
    ids=["no AutoLR", "no rate", "no common seed", "a rate failed", "AutoLR lacks a c"],
)
def test_the_reason_is_named(study: Make, row: MakeRow, rows: Callable[[MakeRow], list[Row]], why: str) -> None:
    found = study(rows(row))
    ((item,), (content,)) = found.without, study_content(found)["without_verdict"]  # type: ignore[misc]
    assert item.why.code == why
    assert (content["method"], content["why"]) == ("gdiff", note_text(item.why))
    assert study_lines(found) == (f"gdiff: no verdict, because {content['why']}.",)


def test_a_primary_question_without_a_verdict_comes_first(study: Make, row: MakeRow) -> None:
    rows = rows_of(row) + failed(rows_of(row, method="ngdiff", c=None))
    first, second = study_lines(study(rows, primary="ngdiff"))
    assert first.startswith("ngdiff (the primary question): no verdict")
    assert second.startswith("gdiff: ")


@pytest.mark.parametrize("primary", ["rmu", "gdiff/official/fresh"])
def test_a_primary_question_about_nothing_that_was_run_is_named(study: Make, row: MakeRow, primary: str) -> None:
    found = study(rows_of(row), primary=primary)
    assert study_lines(found)[0].startswith(f"The primary question is about {primary}")
    assert study_lines(study([], primary=primary))[0].startswith("No verdict: ")
    assert study_content(found)["primary"] == primary
