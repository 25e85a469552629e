"""Suggestions for mistyped names, and numbers with a noun."""

from __future__ import annotations

from search_spaces.messages import counted, did_you_mean, found_instead


def test_names_are_suggested_and_numbers_have_a_noun() -> None:
    assert [counted(count, "trial") for count in (1, 2.5, 1_234_567)] == ["1 trial", "2.5 trials", "1234567 trials"]
    assert "'ngdiff'" in did_you_mean("NGDIF", ["gdiff", "ngdiff"])
    assert "'log'" in did_you_mean("lgo", ["low", "log"]), "swapped letters come before a similar name"
    assert did_you_mean("xyz", ["low", "log"]) == ""
    assert found_instead(["method"], ["Methods", "lr"]) == "the columns found are Methods, lr; did you mean 'Methods'?"
    many = found_instead(["a"], [f"column {number}" for number in range(9)], most=2)
    assert many == "the columns found are column 0, column 1 and 7 more"
