"""Write leaderboards as Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.leaderboard.board import DRAWS, Board, Standing
from analysis.leaderboard.cell import MEASURES
from analysis.words import duration, number

_TITLES = {
    "success": "success",
    "hypervolume": "hypervolume",
    "hypervolume_after_attack": "hypervolume after attack",
    "equal_retention": "forgets at equal retention",
}


def board_content(boards: Sequence[Board]) -> list[dict[str, object]]:
    """Return the content of leaderboard.json."""
    return [
        {
            "problem": board.problem,
            "seeds": list(board.seeds),
            "epoch_budget": board.budget,
            "left_out": list(board.left_out),
            "missing": list(board.missing),
            "rows": [_record(board, index) for index in range(len(board.rows))],
        }
        for board in boards
    ]


def board_table(boards: Sequence[Board]) -> pd.DataFrame:
    """Return the content of leaderboard.csv: one row for each method and problem."""
    return pd.DataFrame([_record(board, index) for board in boards for index in range(len(board.rows))])


def _record(board: Board, index: int) -> dict[str, object]:
    row = board.rows[index]
    record: dict[str, object] = {"problem": board.problem, "method": row.method, "seeds": row.seeds}
    record |= {"fresh_met": row.met, "fresh_runs": row.runs}
    record |= {"success_low": row.success_interval[0], "success_high": row.success_interval[1]}
    for name, standing in row.standings.items():
        record |= {name: standing.mean, f"{name}_place": standing.place}
        record |= {f"{name}_rank_low": standing.low, f"{name}_rank_high": standing.high}
    return record | {"epochs": row.epochs, "seconds": row.seconds}


def board_markdown(boards: Sequence[Board]) -> str:
    """Return leaderboard.md: a table for each board, with its notes."""
    return "\n".join(_section(board) for board in boards)


def _section(board: Board) -> str:
    names = [name for name in MEASURES if name not in board.missing]
    head = ["method", *(_TITLES[name] for name in names), "epochs", "time"]
    lines = [f"## {board.problem or 'All problems'}", ""]
    lines += [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in board.rows:
        cells = [row.method]
        for name in names:
            cells.append(_cell(name, row.standings[name], met=row.met, runs=row.runs))
        lines.append(f"| {' | '.join([*cells, number(row.epochs), duration(row.seconds)])} |")
    seeds = f"{len(board.seeds)} training seeds" if len(board.seeds) != 1 else "1 training seed"
    lines += [
        "",
        f"{seeds}; {board.budget} epochs of search for each method and seed. A cell has the mean, the place and, in "
        f"brackets, the 95% interval of the rank ({DRAWS:,} bootstrap draws of the seeds). A place is 1 plus the "
        "number of methods whose interval lies completely above, so methods with overlapping intervals are tied.",
    ]
    if len(board.seeds) < 5:
        lines.append(
            f"The bootstrap of {seeds} has few different draws, so the intervals of the ranks are too narrow. The "
            "exact intervals of success in leaderboard.csv are not."
        )
    if board.left_out:
        lines.append(f"Left out, because cells are missing: {', '.join(board.left_out)}.")
    if board.missing:
        lines.append(f"Not measured in all cells: {', '.join(_TITLES[name] for name in board.missing)}.")
    return "\n".join(lines) + "\n"


def _cell(name: str, standing: Standing, *, met: int, runs: int) -> str:
    value = f"{met}/{runs}" if name == "success" else f"{standing.mean:.3f}"
    ranks = f"{standing.low}" if standing.low == standing.high else f"{standing.low} to {standing.high}"
    return f"{value}, place {standing.place} ({ranks})"
