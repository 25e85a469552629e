"""The schedule of the learning rate: the rate of each step, at fixed rates and with AutoLR."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trainables.conftest import Start
from trainables.run.decay import DECAYED_SHARE, decay_factor


@pytest.mark.parametrize("steps", [3, 75, 1000])
def test_linear_decay_lowers_the_rate_at_the_end_and_not_before(steps: int) -> None:
    factors = [decay_factor("linear", step=step, steps=steps) for step in range(1, steps + 1)]
    assert all(factor == 1.0 for factor in factors[: int(steps * (1.0 - DECAYED_SHARE))])
    assert factors == sorted(factors, reverse=True)
    assert factors[-1] == pytest.approx(min(1.0, 1.0 / (DECAYED_SHARE * steps)))
    assert {decay_factor("none", step=step, steps=steps) for step in range(1, steps + 1)} == {1.0}


@pytest.mark.parametrize("changes", [{}, {"auto_lr": "gen-clip", "auto_lr_every": 3, "auto_lr_start": 1}])
def test_every_step_has_the_rate_of_the_run_times_the_factor(changes: dict[str, Any], start: Start) -> None:
    """The rows of auto_lr.csv have the rates without the factor."""
    run = start(lr=1e-4, batch_size=8, epochs=10, lr_decay="linear", **changes)
    reports = list(run)
    assert run.step == len(reports) == 10, "one step per epoch, so each report has the rate of one step"
    updates = {update["step"]: update["eta_new"] for report in reports for update in report.updates}
    rate = 1e-4
    for step, report in enumerate(reports, start=1):
        rate = updates.get(step, rate)
        assert report.training["lr"] == pytest.approx(rate * decay_factor("linear", step=step, steps=10))
    assert len(updates) == (4 if changes else 0)
