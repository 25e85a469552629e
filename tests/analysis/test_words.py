"""The formats of numbers, times and names of trials."""

from __future__ import annotations

import math

from analysis.words import duration, number

VALUES = (
    *(7.6246, 0.041308, 0.00099, 0.0001957, 5e-5, 134.56, 99999.4, 1234567.0, -0.25, 0.48000001, 0.5, 8.0, 100.0, 0.0),
    *(3, math.nan, math.inf, None, "", True, "ngdiff"),
)
TEXTS = "7.62 0.0413 9.9e-4 1.96e-4 5e-5 135 99999 1.23e6 -0.25 0.480 0.5 8 100 0 3 – inf – – True ngdiff"


def test_a_number_has_three_digits_that_count_and_a_duration_the_units_people_use() -> None:
    assert list(map(number, VALUES)) == TEXTS.split()
    durations = {0.04: "0.0 s", 12.34: "12.3 s", 200: "3 min 20 s", 3599.9: "1 h 00 min", 7500: "2 h 05 min"}
    assert {seconds: duration(seconds) for seconds in durations} == durations
    assert duration(math.nan) == "–"
