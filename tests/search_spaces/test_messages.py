"""Words that messages share."""

from __future__ import annotations

from search_spaces.messages import counted, did_you_mean, expected_one_of, found_instead


def test_one_is_one_and_others_are_several() -> None:
    told = [counted(count, "trial") for count in (0, 1, 2, 2.5, 1_234_567)]
    assert told == ["0 trials", "1 trial", "2 trials", "2.5 trials", "1234567 trials"]


def test_the_nearest_name_is_meant_whatever_its_case_and_swapped_letters_before_others() -> None:
    assert did_you_mean("NGDIF", ["gdiff", "ngdiff"]) == "did you mean 'ngdiff'?"
    assert did_you_mean("lgo", ["low", "log"]) == "did you mean 'log'?"
    assert did_you_mean("xyz", ["low", "log"]) == ""
    assert expected_one_of("xyz", ["low", "log"]) == "expected one of low, log"


def test_what_a_table_has_in_place_of_a_column_is_listed() -> None:
    assert found_instead(["method"], ["Methods", "lr"]) == "the columns found are Methods, lr; did you mean 'Methods'?"
    assert found_instead(["method"], []) == "the columns found are none"
    assert found_instead(["a"], [f"column {n}" for n in range(9)], most=2).endswith("column 0, column 1 and 7 more")
