"""The limits that end a sweep before all its trials have run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.search.limits import Limits
from sweeper.settings.until import Plateau, UntilError, parse_until
from tests.sweeper.conftest import bare_sweep


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, None),
        ("none", None),
        ("plateau", Plateau(10, 0.001)),
        ("plateau:5", Plateau(5, 0.001)),
        ("plateau:20:1e-4", Plateau(20, 1e-4)),
        *((f"plateau:{bad}", UntilError) for bad in ("", "x", "0", "3:-1", "3:nan", "3:inf", "1:1:1")),
        ("plato", UntilError),
    ],
)
def test_until_is_a_plateau_of_some_trials_and_some_growth_or_is_refused_with_an_example(
    text: str | None, expected: Plateau | type[UntilError] | None
) -> None:
    if expected is UntilError:
        with pytest.raises(UntilError, match=r"such as plateau:10:0\.001"):
            parse_until(text)
    else:
        assert parse_until(text) == expected


@pytest.mark.parametrize(
    ("trace", "reached"),
    [
        ([], False),
        ([0.5, 0.5], False),  # a growth over two trials needs three values
        ([0.5, 0.5, 0.5], True),
        ([0.2, 0.5, 0.5], False),
        ([0.2, 0.5, 0.5, 0.509], True),
        ([0.2, 0.5, 0.5, 0.5101], False),
        ([0.0, 0.0, 0.0, 0.0], False),  # the front is empty
    ],
)
def test_a_plateau_is_reached_when_the_last_trials_added_little(trace: list[float], reached: bool) -> None:
    assert Plateau(2, 0.01).is_reached(trace) == reached


def test_a_plateau_that_ended_the_sweep_stays_its_end_when_the_last_running_trial_leaves_it(tmp_path: Path) -> None:
    controller = bare_sweep(tmp_path, limits=Limits(plateau=Plateau(1, 0.5))).controller
    trace = controller.study.archive.trace
    trace += [0.1, 0.1]
    end = controller.end
    assert end is not None
    assert end.further == "--until none"
    trace.append(0.9)
    assert controller.end == end
