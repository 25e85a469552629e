"""How far back towards the target the weights of a run may go at its end.

On the line from the target's weights to the last ones, what was to be forgotten is mostly forgotten long before the
end, and the rest of the way costs what was to be kept: as for robust fine-tuning (Wortsman et al. 2022, WiSE-FT,
arXiv:2109.01903), the weights between two models are often better than either.

Of a LoRA adapter it is the line between its matrices, so that the model goes along a curve.
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
"""The share of what the last weights have forgotten that counts as forgotten as well."""

KEPT = 0.8
"""The share of the retained answers the target gives that counts as kept."""

KNOWN = 0.1
"""A target that gives less than this of the answers is judged by its retain loss."""

HALVINGS = 5


class Seen(NamedTuple):
    """A model, looked at.

    Attributes:
        forgotten: its capped forget loss (nats per token).
        answers: the share of the retained answers that it gives; NaN where it is not known.
        retain_loss: nats per token.
    """

    forgotten: float
    answers: float
    retain_loss: float


def nearest(look: Callable[[float], Seen], last: Seen) -> float:
    """The share of the way from the target (0) to the ``last`` weights (1) to hand out.

    No nearer to the target than where all of the retained answers are given that it gives, and no nearer than where
    the capped forget loss has risen by ``FORGOTTEN`` of what it has in the end; but in doubt the model is kept, and so
    in any case as near as it takes for ``KEPT`` of the answers. Where only the last weights do both, those. Found by
    bisection, in 32nds: ``look`` is asked at 0, and ``HALVINGS`` times between unless the last weights keep all.

    Where the target's answers are not known, or hardly any are given, it is asked for exp(-L_R) in their place, the
    likelihood of a token.
    """
    target = look(0.0)
    by_answers = target.answers >= KNOWN

    def kept(seen: Seen) -> float:
        return seen.answers if by_answers else math.exp(-seen.retain_loss)

    def is_good(seen: Seen) -> bool:
        risen, all_risen = seen.forgotten - target.forgotten, last.forgotten - target.forgotten
        return risen >= FORGOTTEN * all_risen and kept(seen) >= KEPT * kept(target)

    near, far, found = 0.0, 1.0, 1.0 if is_good(last) else None
    if kept(last) >= kept(target):
        return 1.0
    for _ in range(HALVINGS):
        middle = (near + far) / 2.0
        seen = look(middle)
        if is_good(seen):
            found = middle
        if kept(seen) >= kept(target) or not (is_good(seen) or kept(seen) < KEPT * kept(target)):
            near = middle
        else:
            far = middle
    return near if found is None else found


class Start:
    """A copy in host memory of the weights that a run begins with, to begin with anew or to interpolate towards."""

    def __init__(self, model: PreTrainedModel, optimizer: Optimizer) -> None:
        """``optimizer`` has taken no step yet."""
        self._model, self._optimizer = model, optimizer
        self._weights, self._at_rest = weights_state(model), optimizer.state_dict()

    def restore(self) -> None:
        """Weights, buffers and optimizer as they were then, bit for bit."""
        load_weights(self._weights, self._model)
        load_optimizer(self._at_rest, self._optimizer)

    def line(self) -> Callable[[float], None]:
        """From here to the present weights: what it returns goes to a share of that way; the optimizer stays."""
        end = weights_state(self._model)

        def go(share: float) -> None:
            load_weights(end if share == 1.0 else weights_between(self._weights, end, share), self._model)

        return go
