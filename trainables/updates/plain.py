"""Plain: both gradients at the current weights, and the optimizer's own step."""

from __future__ import annotations

from trainables.updates.base import Update

UPDATE = Update(
    name="plain",
    formula="the gradients at theta, and the optimizer's step",
    citation="",
)
