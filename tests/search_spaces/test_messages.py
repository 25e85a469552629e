"""Suggestions for mistyped names."""

from __future__ import annotations

from search_spaces.messages import counted, did_you_mean, found_instead


def test_a_count_of_one_is_singular() -> None:
    assert [counted(count, "trial") for count in (1, 2.5, 1_234_567)] == ["1 trial", "2.5 trials", "1234567 trials"]


def test_the_nearest_name_is_suggested_whatever_its_case_and_swapped_letters_win() -> None:
    assert "'ngdiff'" in did_you_mean("NGDIF", ["gdiff", "ngdiff"])
    assert "'log'" in did_you_mean("lgo", ["low", "log"])
    assert did_you_mean("xyz", ["low", "log"]) == ""


def test_the_columns_found_instead_are_listed_up_to_a_limit() -> None:
    assert found_instead(["method"], ["Methods", "lr"]) == "the columns found are Methods, lr; did you mean 'Methods'?"
    many = found_instead(["a"], [f"column {number}" for number in range(9)], most=2)
    assert "column 1" in many
    assert "column 2" not in many
    assert "7 more" in many
