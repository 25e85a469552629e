"""Fixtures that compare sweeps and CSV files as the command ``compare`` does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.comparison.comparison import comparison_data, comparison_parts
from analysis.comparison.table import ComparisonTable, Entry
from analysis.tables.columns import Columns
from sweeper.store.columns import column_dictionary
from tests.analysis.conftest import MakeSweep, Row

Compared = Callable[..., ComparisonTable]
WriteCsv = Callable[[str], Path]
GOOD = {"verbmem": 0.05, "utility": 0.7, "truth_ratio": 0.4}
BASELINE = {"verbmem": 0.9, "utility": 0.8, "truth_ratio": 0.5, "forget_loss": 0.04, "retain_loss": 0.05}


def read(*sources: Path) -> tuple[ComparisonTable, ...]:
    columns = Columns.from_dict(column_dictionary(random_guess=None, unit="token"))
    return comparison_data(comparison_parts(list(sources), columns))


def without(table: ComparisonTable, place: int = 0) -> Entry:
    """Return the entry of a method without AutoLR."""
    entry = table.rows[place].without
    assert entry is not None
    return entry


@pytest.fixture
def compared(make_sweep: MakeSweep) -> Compared:
    """Return the comparison table of a sweep with the given trials."""

    def of(rows: list[Row], **sweep: object) -> ComparisonTable:
        (table,) = read(make_sweep(rows, **{"baseline": BASELINE} | sweep))
        return table

    return of


@pytest.fixture
def theirs(tmp_path: Path) -> WriteCsv:
    """Write a table of results from another program."""

    def write(text: str) -> Path:
        path = tmp_path / "theirs.csv"
        path.write_text(text)
        return path

    return write
