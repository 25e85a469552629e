"""Where there is no verdict the headline, the page and lr_study.json say so and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from analysis.page.report import write_report
from analysis.study.lr_study import LrStudy, read_study
from analysis.study.seeds import seeds_in_words
from analysis.study.study_headline import study_headline
from tests.analysis.conftest import MakeRow, MakeSweep, Row

Make = Callable[..., LrStudy]
PEAK = {1e-5: 0.1, 1e-4: 0.45, 1e-3: 0.3}
FAILED: Row = {"status": "failed", "forget_loss_capped": None, "retain_loss": None}


def rows_of(
    row: MakeRow, *, hand: Sequence[int] = range(6), auto: Sequence[int] = range(6), **fields: object
) -> list[Row]:
    """Fixed rates and AutoLR on their seeds, none of them ruined."""
    fixed = [row(volume, lr, seed, utility=0.8, **fields) for seed in hand for lr, volume in PEAK.items()]
    return fixed + [row(0.45, 1e-4, seed, auto=True, utility=0.8, **fields) for seed in auto]


def failed(rows: list[Row], *, auto: str = "on", **fields: object) -> list[Row]:
    """The rows, with those of one side and with these fields failed."""
    wanted = {"auto_lr": auto} | fields
    return [item | FAILED if wanted.items() <= item.items() else item for item in rows]


@pytest.fixture
def study(make_sweep: MakeSweep) -> Make:
    def make(rows: list[Row], primary: str | None = None) -> LrStudy:
        return read_study([make_sweep(rows, settings={"kind": "lr-study", "sampler": "grid", "primary": primary})])

    return make


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (lambda row: rows_of(row, auto=()), "there is no run with AutoLR"),
        (lambda row: rows_of(row, hand=()), "there is no run at a fixed learning rate"),
        (
            lambda row: rows_of(row, auto=range(6, 12)),
            "no seed was run on both sides, fixed learning rates on seeds 0 to 5 and AutoLR on seeds 6 to 11",
        ),
        (lambda row: failed(rows_of(row)), "no run with AutoLR ended on any seed (6 failed)"),
        (lambda row: failed(rows_of(row), auto="off"), "no run at a fixed learning rate ended on any seed (18 failed)"),
        (
            lambda row: failed(rows_of(row), auto="off", lr=1e-3),
            "no run at the fixed lr 0.001 ended on any seed (6 failed)",
        ),
        (
            lambda row: rows_of(row) + rows_of(row, auto=(), c=0.9),
            "no run with AutoLR at c 0.9 ended on any seed (there is none)",
        ),
        (
            lambda row: failed(failed(rows_of(row, hand=(0, 1), auto=(0, 1)), seed=0), auto="off", lr=1e-4, seed=1),
            "on no seed did all runs end, those at every fixed learning rate and those from every start of AutoLR",
        ),
    ],
)
def test_the_reason_names_what_would_have_to_be_run(
    study: Make, row: MakeRow, rows: Callable[[MakeRow], list[Row]], why: str
) -> None:
    found = study(rows(row))
    assert study_headline(found) == f"No verdict for gdiff: {why}."
    (told,) = found.to_dict()["without_verdict"]  # type: ignore[misc]
    assert (told["method"], told["why"]) == ("gdiff", why)


def test_a_method_without_a_verdict_stands_beside_those_that_have_one(study: Make, row: MakeRow) -> None:
    others = [item for name in ("npo", "dpo") for item in rows_of(row, auto=(), method=name, c=None)]
    assert study_headline(study(rows_of(row) + others)) == (
        "AutoLR: nothing can be concluded from so few seeds for gdiff (4 fresh seeds). "
        "No verdict for npo and dpo: there is no run with AutoLR."
    )


def test_the_ruin_of_methods_that_is_the_same_is_told_once(study: Make, row: MakeRow) -> None:
    rows = [item | {"utility": None} for name in ("npo", "dpo") for item in rows_of(row, method=name, c=None)]
    assert study_headline(study(rows)).endswith(
        "For npo and dpo it is not known whether runs are ruined: AutoLR 4 of 4, the best single lr 4 of 4 each."
    )


def test_a_primary_question_without_a_verdict_comes_first(study: Make, row: MakeRow) -> None:
    rows = rows_of(row) + failed(rows_of(row, method="ngdiff", c=None))
    assert study_headline(study(rows, primary="ngdiff")) == (
        "No verdict for ngdiff (the primary question): no run with AutoLR ended on any seed (6 failed). "
        "AutoLR: nothing can be concluded from so few seeds for gdiff (4 fresh seeds)."
    )


@pytest.mark.parametrize("primary", ["rmu", "gdiff/official/fresh"])
def test_a_primary_question_on_nothing_that_was_run_is_said_to_be_one(study: Make, row: MakeRow, primary: str) -> None:
    found = study(rows_of(row), primary=primary)
    assert study_headline(found).startswith(f"The primary question is on {primary}, of which this study has no run. A")
    assert found.to_dict()["primary"] == primary


def test_a_table_without_runs_has_no_verdict(study: Make) -> None:
    assert study_headline(study([])) == "No verdict: there is no run with a learning rate and a seed."


def test_the_page_of_a_study_without_verdicts_says_so(make_sweep: MakeSweep, row: MakeRow) -> None:
    out = make_sweep(rows_of(row, auto=range(6, 12)), settings={"kind": "lr-study", "sampler": "grid"})
    write_report(out)
    page = (out / "report.html").read_text()
    assert "<h1>No verdict for gdiff: no seed was run on both sides," in page
    assert "What the verdict rests on" not in page


def test_seeds_are_told_as_ranges() -> None:
    assert seeds_in_words([0]) == "seed 0"
    assert seeds_in_words([2, 1]) == "seeds 1, 2"
    assert seeds_in_words([9, 0, 1, 2, 3]) == "seeds 0 to 3, 9"
    assert seeds_in_words([]) == "no seed"
