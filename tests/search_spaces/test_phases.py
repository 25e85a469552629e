"""The seconds of a command are those of its phases, each counted once."""

from __future__ import annotations

import pytest

from search_spaces import phases


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second whenever it is looked at, from 0."""
    ticks = iter(range(100))
    monkeypatch.setattr(phases, "_seconds", {})
    monkeypatch.setattr(phases, "_BEGAN", 0.0)
    monkeypatch.setattr(phases.time, "perf_counter", lambda: float(next(ticks)))


def test_phases_add_up_and_the_rest_is_reported() -> None:
    for _ in range(2):
        with phases.phase("trials"):
            pass
    with pytest.raises(KeyError), phases.phase("report"):
        raise KeyError  # it counts, too
    assert phases.seconds_by_phase() == {"trials": 2.0, "report": 1.0, "other (imports, options)": 3.0, "in all": 6.0}


def test_a_phase_within_a_phase_counts_once() -> None:
    with phases.phase("target"), phases.phase("start of Ray"):
        phases.time.perf_counter()
    assert phases.seconds_by_phase()["target"] == 2.0
    assert "start of Ray" not in phases.seconds_by_phase()
