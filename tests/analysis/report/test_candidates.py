"""The table of all candidates on the report page: thinned if it is large, without losing models that matter."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.frontier.choice import choose_model
from analysis.frontier.frontier import frontier
from analysis.report.candidates import Problem, candidates_data
from analysis.tables.sources import read_sources
from tests.analysis.conftest import MakeSweep, trial


def test_of_many_candidates_the_frontier_and_the_chosen_model_are_never_left_out(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tenth trial and the last nine are on the frontier, and the rule judges too many models to keep them all."""
    monkeypatch.setattr("analysis.report.candidates.MAX_ROWS", 20)
    for module in ("analysis.frontier.rule", "analysis.report.candidates"):
        monkeypatch.setattr(f"{module}.MAX_MODELS", 10)
    rows = [trial(str(i), 0.1 + i / 20, 0.1 + i / 20 + (i % 10 > 0)) for i in range(100)]
    out = make_sweep(rows)
    source = read_sources([out], out=out)
    front = frontier(source.table.models, source.sweep.objectives)
    choice = choose_model(source.table, source.sweep)
    data = candidates_data([Problem("a", source, front, choice)], {"a-sweep": Path("runs/a")}, prefixed=False)
    assert (data["of"], data["shown"]) == (100, 20)
    shown = [data["trials"]["id"][index] for index in data["rows"]["trial"]]
    assert set(front.trial_ids) <= set(shown)
    assert sum(data["rows"]["front"]) == len(front.trial_ids) == 19
    assert choice.row is not None
    assert shown[data["problems"][0]["chosen"]] == choice.row["trial_id"]
    assert set(data["trials"]["folder"]) == {"runs/a"}
    assert all(len(values) == 20 for values in data["values"].values())
