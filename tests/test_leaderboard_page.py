"""The table in docs/leaderboard.md is the one that the stored rows give, digit by digit."""

from analysis.leaderboard.board import boards, read_cells
from analysis.report.leaderboard_text import board_markdown
from tests.pages import ROOT


def test_the_table_of_the_tiny_edition_follows_from_its_rows() -> None:
    page = (ROOT / "docs/leaderboard.md").read_text(encoding="utf-8")
    printed = board_markdown(boards(read_cells(ROOT / "docs/data/leaderboard_tiny.csv.xz")))
    lines = [line for line in printed.splitlines() if line and not line.startswith("## ")]
    assert len(lines) > 5
    assert [line for line in lines if line not in page] == []
