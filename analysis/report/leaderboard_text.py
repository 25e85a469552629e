"""Write leaderboards as Markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.leaderboard.board import DRAWS, Board
from analysis.leaderboard.cell import MEASURES
from analysis.report.render import render_line, render_lines
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
            "open_seeds": list(board.open_seeds),
            "missing": list(board.missing),
            "unmeasured": dict(board.unmeasured),
            "seeds_vary": board.seeds_vary,
            "shown": {
                name: [{"better": better, "worse": list(worse)} for better, worse in board.shown(name)]
                for name in MEASURES
                if name not in board.missing
            },
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
    record |= {"met": row.met, "cells": row.cells}
    record |= {"success_low": row.success_interval[0], "success_high": row.success_interval[1]}
    for name, standing in row.standings.items():
        record |= {name: standing.mean, f"{name}_mean_rank": standing.mean_rank}
        record |= {f"{name}_rank_low": standing.low, f"{name}_rank_high": standing.high}
    return record | {"epochs": row.epochs, "seconds": row.seconds}


def board_markdown(boards: Sequence[Board]) -> str:
    """Return leaderboard.md: a table for each board, with its notes."""
    return "\n".join(_section(board) for board in boards)


def _section(board: Board) -> str:
    names = [name for name in MEASURES if name not in board.missing]
    head = ["method", *(_TITLES[name] for name in names), "epochs", "time"]
    lines = [f"## {board.problem or 'All problems'}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in board.rows:
        cells = [render_line("leaderboard.cell", row=row, name=name) for name in names]
        lines.append(f"| {' | '.join([row.method, *cells, number(row.epochs), duration(row.seconds)])} |")
    notes = render_lines(
        "leaderboard.notes",
        board=board,
        draws=DRAWS,
        titles=_TITLES,
    )
    return "\n".join([*lines, "", *notes]) + "\n"
