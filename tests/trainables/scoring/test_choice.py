"""What is measured: sets leave out what the data lack, unless that is all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainables.data.examples import UnlearningData
from trainables.scoring.choice import MetricError, metrics_of


def test_a_set_of_which_nothing_can_be_measured_is_refused(tiny_data: UnlearningData) -> None:
    without = replace(tiny_data, holdout=())
    with pytest.raises(MetricError, match=r"nothing of mia can be measured: .*holdout.* is needed"):
        metrics_of(("verbmem", "mia"), without)
    assert "verbmem" in metrics_of(("default",), without)
