"""Interpolate the last weights of a run towards the target's.

On the line from the target's weights to the last ones, most forgetting happens long before the end, and the rest of
the line mostly lowers the retained quality. As in robust fine-tuning (Wortsman et al. 2022, WiSE-FT,
arXiv:2109.01903), weights between two models are often better than either.

For a LoRA adapter the line joins its two matrices' values, so the model itself moves along a curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from trainables.run.run_state import load_optimizer, load_weights, weights_between, weights_state

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from transformers import PreTrainedModel

FORGOTTEN = 0.9
"""A model counts as having forgotten if its forget loss has risen by this share of the last weights' rise."""

KEPT = 0.8
"""A model counts as kept if it gives at least this share of the retained answers that the target gives."""

KNOWN = 0.1
"""If the target gives less than this share of the retained answers, models are judged by their retain loss."""

HALVINGS = 5


class Quality(NamedTuple):
    """The quality of a model between the target and the last weights.

    Attributes:
        forgotten: capped forget loss (nats per token).
        answers: share of the retained answers that the model gives; NaN if unknown.
        retain_loss: nats per token.
    """

    forgotten: float
    answers: float
    retain_loss: float


def choose_share(evaluate: Callable[[float], Quality], last: Quality) -> float:
    """Return the share of the line from the target (0) to the ``last`` weights (1) at which to stop, by bisection.

    The share returned is the smallest, in 32nds, at which the capped forget loss has risen by ``FORGOTTEN`` of its
    whole rise, but at least the largest share at which all retained answers that the target gives are still given.
    Keeping the model has priority: the share shrinks until at least ``KEPT`` of the answers are given. If the last
    weights alone satisfy both, they are returned. ``evaluate`` is called at 0, and ``HALVINGS`` times between unless
    the last weights keep all answers. If the target's answers are unknown, or it gives hardly any, ``exp(-L_R)``, the
    likelihood of a token, replaces the share of answers.
    """
    target = evaluate(0.0)
    by_answers = target.answers >= KNOWN

    def kept(model: Quality) -> float:
        return model.answers if by_answers else math.exp(-model.retain_loss)

    def is_good(model: Quality) -> bool:
        rise, whole_rise = model.forgotten - target.forgotten, last.forgotten - target.forgotten
        return rise >= FORGOTTEN * whole_rise and kept(model) >= KEPT * kept(target)

    if kept(last) >= kept(target):
        return 1.0
    near, far, best = 0.0, 1.0, 1.0 if is_good(last) else None
    for _ in range(HALVINGS):
        middle = (near + far) / 2.0
        model = evaluate(middle)
        if is_good(model):
            best = middle
        if kept(model) >= kept(target) or not (is_good(model) or kept(model) < KEPT * kept(target)):
            near = middle
        else:
            far = middle
    return near if best is None else best


class InitialState:
    """A copy in host memory of the weights and the optimizer that a run starts with."""

    def __init__(self, model: PreTrainedModel, optimizer: Optimizer) -> None:
        """``optimizer`` must not have taken a step."""
        self._model, self._optimizer = model, optimizer
        self._weights, self._optimizer_state = weights_state(model), optimizer.state_dict()

    def restore(self) -> None:
        """Restore weights, buffers and optimizer, bit for bit."""
        load_weights(self._weights, self._model)
        load_optimizer(self._optimizer_state, self._optimizer)

    def line(self) -> Callable[[float], None]:
        """Return a function that moves the model to a share of the line from here to its present weights."""
        end = weights_state(self._model)

        def go(share: float) -> None:
            load_weights(end if share == 1.0 else weights_between(self._weights, end, share), self._model)

        return go
