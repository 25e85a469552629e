"""The ranks of a leaderboard follow from its rows, and differences within the noise of the seeds are ties."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, rankdata

from analysis.errors import AnalysisError
from analysis.leaderboard.board import boards, read_cells, shown_better
from analysis.leaderboard.cell import COLUMNS
from analysis.report.leaderboard_text import board_markdown, board_table


def cells(success: dict[str, list[float]], **changes: object) -> pd.DataFrame:
    """Return a row for each method and seed on one problem."""
    fixed = {"model": "m", "dataset": "d", "forget_split": "", "epoch_budget": 24, "epochs": 24.0, "trials": 4}
    rows = [
        {
            **dict.fromkeys(COLUMNS, ""),
            **fixed,
            "method": method,
            "seed": seed,
            "success": value,
            "fresh_runs": 1,
            "fresh_met": int(value == 1.0),
            "hypervolume": 0.5,
            "hypervolume_after_attack": 0.4,
            "equal_retention": 0.9,
            "seconds": 10.0,
            **changes,
        }
        for method, values in success.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def ranges(rows: pd.DataFrame, measure: str = "success") -> dict[str, tuple[int, int]]:
    """Return the first and the last rank of each method."""
    board = boards(rows)[0]
    return {row.method: (row.standings[measure].low, row.standings[measure].high) for row in board.rows}


def test_a_method_that_is_better_on_every_seed_has_the_first_rank() -> None:
    assert ranges(cells({"good": [1.0] * 8, "bad": [0.0] * 8})) == {"good": (1, 1), "bad": (2, 2)}


@pytest.mark.parametrize("lost", [1, 2, 4])
def test_two_methods_are_tied_unless_the_sign_test_separates_them(lost: int) -> None:
    """With two methods, the test is the exact sign test: 7 of 8 seeds have p = 18/256 = 0.070."""
    assert 2 * binom.cdf(lost, 8, 0.5) > 0.05
    good = [0.0] * lost + [1.0] * (8 - lost)
    assert ranges(cells({"good": good, "bad": [1.0 - value for value in good]})) == {"good": (1, 2), "bad": (1, 2)}


def test_the_differences_that_a_measure_shows_are_named() -> None:
    rows = cells({"a": [1.0] * 8, "b": [1.0] * 8, "c": [0.0] * 8})
    (board,) = boards(rows)
    assert board.shown("success") == [(["a", "b"], ("c",))]
    assert board.shown("hypervolume") == []
    text = board_markdown([board])
    assert "Shown by success: a and b are better than c." in text
    assert "Shown by hypervolume: no difference." in text


def test_equal_methods_share_all_ranks_that_they_occupy() -> None:
    assert ranges(cells({"a": [0.5] * 8, "b": [0.5] * 8, "c": [0.1] * 8})) == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}


def test_the_critical_difference_is_that_of_nemenyi() -> None:
    """Demsar (2006), Table 5: the critical value of q is 2.850 for six methods, so CD = 2.850 sqrt(6 * 7 / (6 N))."""
    blocks, count = 24, 6
    critical = 2.850 * math.sqrt(count * (count + 1) / (6 * blocks))
    generator = np.random.default_rng(0)
    separated = []
    for _ in range(60):
        ranks = (
            np.argsort(np.argsort(generator.normal(size=(blocks, count)) + np.linspace(0, 1.2, count), axis=1)) + 1.0
        )
        lead = ranks.mean(axis=0)[None, :] - ranks.mean(axis=0)[:, None]
        is_clear = np.abs(np.abs(lead) - critical) > 0.1  # the mean ranks of 24 blocks are discrete
        separated += (shown_better(ranks, draws=4000) == (lead > critical))[is_clear].tolist()
    assert len(separated) > 1000
    assert all(separated)


def test_equal_methods_are_separated_in_at_most_five_percent_of_leaderboards() -> None:
    """A common effect of the seed does not matter."""
    generator = np.random.default_rng(1)
    found = 0
    for _ in range(400):
        scores = generator.normal(size=(8, 5)) + 3.0 * generator.normal(size=(8, 1))
        found += bool(shown_better(rankdata(-scores, axis=1), draws=500).any())
    assert found / 400 < 0.08


@pytest.mark.parametrize(("methods", "seeds"), [(2, 5), (3, 2), (10, 1)])
def test_too_few_seeds_do_not_order_the_methods(methods: int, seeds: int) -> None:
    """The best of all seeds and the worst of all seeds are not separated, but with one seed more, they are."""
    for more, is_shown in ((0, False), (1, True)):
        rows = cells({f"m{index}": [float(index)] * (seeds + more) for index in range(methods)})
        (board,) = boards(rows)
        assert board.decides is is_shown
        assert ("So few seeds" in board_markdown([board])) is not is_shown
        assert (ranges(rows)["m0"][0] > 1) is is_shown


def test_the_interval_of_success_is_exact_and_counts_cells() -> None:
    (board,) = boards(cells({"a": [1.0] * 8}))
    low, high = board.rows[0].success_interval
    assert (board.rows[0].met, board.rows[0].cells) == (8.0, 8)
    assert low == pytest.approx(0.025 ** (1 / 8))  # Clopper and Pearson for 8 of 8
    assert high == 1.0


def test_a_cell_without_a_recommended_model_counts_as_much_as_a_cell_with_many_fresh_runs() -> None:
    rows = cells({"a": [1.0, 0.0, 0.0, 0.0, 0.0], "b": [0.4] * 5})
    rows["fresh_runs"] = [5, 0, 0, 0, 0, 5, 5, 5, 5, 5]
    rows["fresh_met"] = [5, 0, 0, 0, 0, 2, 2, 2, 2, 2]
    (board,) = boards(rows)
    assert [(row.method, row.met, row.cells) for row in board.rows] == [("b", 2.0, 5), ("a", 1.0, 5)]
    assert "| a | 1/5, " in board_markdown([board])


def test_a_cell_whose_success_is_unknown_leaves_no_success() -> None:
    (board,) = boards(cells({"a": [1.0] * 7 + [math.nan]}))
    assert "success" in board.missing
    assert math.isnan(board.rows[0].success_interval[0])


@pytest.mark.parametrize(("column", "gone"), [("attacks", 1), ("axes", 3)])
def test_measures_that_were_measured_in_different_ways_are_not_ranked(column: str, gone: int) -> None:
    """A cell without one of the attacks would look resistant."""
    rows = cells({"a": [1.0] * 8, "b": [1.0] * 8}, axes="x y", attacks="x_after_int8 x_after_nf4")
    rows.loc[3, column] = "x"
    (board,) = boards(rows)
    assert len(board.missing) == gone
    assert "hypervolume_after_attack" in board.missing


def test_seeds_that_share_a_target_are_called_orders() -> None:
    (board,) = boards(cells({"a": [1.0] * 8}, seeds_vary="order"))
    text = board_markdown([board])
    assert "8 seeds; a budget" in text
    assert "All seeds share one target" in text


def test_a_method_with_few_cells_is_left_out_and_named() -> None:
    (board,) = boards(cells({"a": [1.0] * 8, "b": [1.0] * 3}))
    assert [row.method for row in board.rows] == ["a"]
    assert (board.left_out, board.open_seeds, len(board.seeds)) == (("b",), (), 8)
    assert "Left out, because cells are missing: b." in board_markdown([board])


def test_while_the_last_seeds_are_run_all_methods_are_ranked_on_the_finished_ones() -> None:
    rows = cells({"a": [1.0] * 8, "b": [1.0] * 6, "c": [1.0] * 7})
    (board,) = boards(rows)
    assert [(row.method, row.seeds) for row in board.rows] == [("a", 6), ("b", 6), ("c", 6)]
    assert (board.left_out, board.open_seeds, board.seeds) == ((), (6, 7), tuple(range(6)))
    assert "Left out, because some methods have no cell on them: seeds 6, 7." in board_markdown([board])
    other = rows[(rows["seed"] < 5) | (rows["method"] == "c")].assign(dataset="other")
    together, _, second = boards(pd.concat([rows, other]))
    assert (together.seeds, second.seeds) == (tuple(range(5)), tuple(range(5))), "finished on both problems"


def test_a_measure_that_a_cell_lacks_has_no_column() -> None:
    (board,) = boards(cells({"a": [1.0] * 8}, hypervolume_after_attack=float("nan")))
    assert board.missing == ("hypervolume_after_attack",)
    assert "hypervolume_after_attack" not in board_table([board])
    assert "such as after other attacks: hypervolume after attack." in board_markdown([board])


def test_failed_attacks_which_lower_a_hypervolume_are_reported() -> None:
    rows = cells({"a": [1.0] * 8, "b": [1.0] * 8}).assign(unmeasured=[0] * 7 + [2] + [0] * 8)
    (board,) = boards(rows)
    assert board.unmeasured == {"a": 2}
    assert "a: a measurement or an attack failed on 2 stored models." in board_markdown([board])


def test_a_file_of_an_earlier_version_does_not_say_whether_attacks_failed(tmp_path: Path) -> None:
    cells({"a": [1.0] * 8}).drop(columns=["unmeasured", "seeds_vary"]).to_csv(tmp_path / "cells.csv", index=False)
    (board,) = boards(read_cells(tmp_path / "cells.csv"))
    assert (board.unmeasured, board.seeds_vary) == ({}, "target")


def test_several_problems_have_a_board_each_and_one_together() -> None:
    rows = pd.concat([cells({"a": [1.0] * 8}), cells({"a": [0.0] * 8}, dataset="other")])
    together, first, second = boards(rows)
    assert [board.problem for board in (together, first, second)] == ["", "m, d", "m, other"]
    assert together.rows[0].standings["success"].mean == 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows.drop(columns="success"), "lacks the columns success"),
        (lambda rows: pd.concat([rows, rows]), "several rows for one cell"),
        (lambda rows: rows.assign(epoch_budget=[24] * 7 + [30]), "different budgets"),
    ],
)
def test_rows_that_cannot_be_ranked_are_refused(
    change: Callable[[pd.DataFrame], pd.DataFrame], words: str, tmp_path: Path
) -> None:
    change(cells({"a": [1.0] * 8})).to_csv(tmp_path / "cells.csv", index=False)
    with pytest.raises(AnalysisError, match=words):
        read_cells(tmp_path / "cells.csv")
