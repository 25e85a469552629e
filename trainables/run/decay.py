"""The schedules of the learning rate."""

from __future__ import annotations

DECAYED_SHARE = 0.3
"""The fraction of the run's steps, at the end of the run, over which ``linear`` lowers the rate to 0."""


def decay_factor(decay: str, *, step: int, steps: int) -> float:
    """Return the factor by which a schedule scales the rate at step ``step`` of ``steps``, counted from 1.

    With ``linear``, the rate falls at the end, so that the retain loss recovers. The last step has a positive rate.
    """
    return min(1.0, (1.0 - (step - 1) / steps) / DECAYED_SHARE) if decay == "linear" else 1.0
