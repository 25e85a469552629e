"""Suggestions for mistyped names, and the seconds of a command's phases."""

from __future__ import annotations

import pytest

from search_spaces import phases
from search_spaces.messages import counted, did_you_mean, found_instead


def test_names_are_suggested_and_numbers_have_a_noun() -> None:
    assert [counted(count, "trial") for count in (1, 2.5, 1_234_567)] == ["1 trial", "2.5 trials", "1234567 trials"]
    assert "'ngdiff'" in did_you_mean("NGDIF", ["gdiff", "ngdiff"])
    assert "'log'" in did_you_mean("lgo", ["low", "log"]), "swapped letters come before a similar name"
    assert did_you_mean("xyz", ["low", "log"]) == ""
    assert found_instead(["method"], ["Methods", "lr"]) == "the columns found are Methods, lr; did you mean 'Methods'?"
    many = found_instead(["a"], [f"column {number}" for number in range(9)], most=2)
    assert many == "the columns found are column 0, column 1 and 7 more"


def test_phases_add_up_and_a_phase_within_a_phase_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(100))  # each look at the clock takes a second
    monkeypatch.setattr(phases, "_seconds", {})
    monkeypatch.setattr(phases, "_BEGAN", 0.0)
    monkeypatch.setattr(phases.time, "perf_counter", lambda: float(next(ticks)))
    for _ in range(2):
        with phases.phase("trials"):
            pass
    with pytest.raises(KeyError), phases.phase("report"):
        raise KeyError  # a failed phase counts, too
    with phases.phase("target"), phases.phase("start of Ray"):
        phases.time.perf_counter()
    expected = {"trials": 2.0, "report": 1.0, "target": 2.0, "other (imports, options)": 4.0, "in all": 9.0}
    assert phases.seconds_by_phase() == expected
