"""The ranks of a leaderboard follow from its rows, and differences within the noise of the seeds are ties."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.errors import AnalysisError
from analysis.leaderboard.board import boards, rank_intervals, read_cells
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
            "fresh_met": int(value),
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


def test_a_method_that_is_better_on_every_seed_has_the_first_place() -> None:
    (board,) = boards(cells({"good": [1.0] * 8, "bad": [0.0] * 8}))
    places = {row.method: row.standings["success"] for row in board.rows}
    assert (places["good"].place, places["good"].low, places["good"].high) == (1, 1, 1)
    assert (places["bad"].place, places["bad"].low, places["bad"].high) == (2, 2, 2)


def test_methods_with_overlapping_rank_intervals_are_tied() -> None:
    mixed = [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0]
    (board,) = boards(cells({"a": mixed, "b": mixed[::-1]}))
    assert [row.standings["success"].place for row in board.rows] == [1, 1]
    assert all((row.standings["success"].low, row.standings["success"].high) == (1, 2) for row in board.rows)


def test_an_interval_that_begins_lower_but_overlaps_is_tied() -> None:
    """The middle method is never the best, but each other method may be below it."""
    half = [1.0, 0.0] * 4
    (board,) = boards(cells({"a": half, "b": half[::-1], "middle": [0.4] * 8}))
    found = {row.method: row.standings["success"] for row in board.rows}
    assert (found["a"].low, found["b"].low, found["middle"].low) == (1, 1, 2)
    assert [found[name].place for name in ("a", "b", "middle")] == [1, 1, 1]


def test_equal_methods_share_all_ranks_that_they_occupy() -> None:
    low, high = rank_intervals([np.array([[0.5] * 5, [0.5] * 5, [0.1] * 5])])
    assert low.tolist() == [1, 1, 3]
    assert high.tolist() == [2, 2, 3]


@pytest.mark.parametrize(("rival", "first"), [(0.5, [1, 1]), (0.7, [2, 1])])
def test_a_rank_is_in_the_interval_if_enough_draws_have_it(rival: float, first: list[int]) -> None:
    """The mean of the first method in a draw is k/5 with k ~ B(5, 1/5): above 0.5 with 5.8%, above 0.7 with 0.7%."""
    low, _ = rank_intervals([np.array([[1.0, 0.0, 0.0, 0.0, 0.0], [rival] * 5])])
    assert low.tolist() == first


@pytest.mark.parametrize("seeds", [1, 4])
def test_too_few_seeds_do_not_order_the_methods(seeds: int) -> None:
    (board,) = boards(cells({"good": [1.0] * seeds, "bad": [0.0] * seeds}))
    assert [(row.standings["success"].place, row.standings["success"].high) for row in board.rows] == [(1, 2), (1, 2)]


def test_the_interval_of_success_is_exact() -> None:
    (board,) = boards(cells({"a": [1.0] * 8}))
    low, high = board.rows[0].success_interval
    assert (board.rows[0].met, board.rows[0].runs) == (8, 8)
    assert low == pytest.approx(0.025 ** (1 / 8))  # Clopper and Pearson for 8 of 8
    assert high == 1.0


def test_a_cell_without_a_recommended_model_counts_as_a_failure() -> None:
    rows = cells({"a": [0.0] * 8}).assign(fresh_runs=0)
    (board,) = boards(rows)
    assert (board.rows[0].met, board.rows[0].runs) == (0, 8)


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
    assert "Not measured in all cells: hypervolume after attack." in board_markdown([board])


def test_failed_attacks_which_lower_a_hypervolume_are_reported() -> None:
    rows = cells({"a": [1.0] * 8, "b": [1.0] * 8}).assign(unmeasured=[0] * 7 + [2] + [0] * 8)
    (board,) = boards(rows)
    assert board.unmeasured == {"a": 2}
    assert "a: a measurement or an attack failed on 2 stored models." in board_markdown([board])


def test_a_file_of_an_earlier_version_does_not_say_whether_attacks_failed(tmp_path: Path) -> None:
    cells({"a": [1.0] * 8}).drop(columns="unmeasured").to_csv(tmp_path / "cells.csv", index=False)
    (board,) = boards(read_cells(tmp_path / "cells.csv"))
    assert board.unmeasured == {}


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
