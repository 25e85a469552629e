"""The target's distributions of the next token on fixed texts, and another model's divergence from these distributions.

The distributions are computed once per target and process. For a vocabulary of at most ``EXACT_SIZE`` tokens, all
probabilities are stored and the divergence is exact. Otherwise, the ``TOP`` most probable tokens of each position are
stored, and all others count as one token. This lowers the divergence, by the log sum inequality, and by at most

    r max_v log(p(v) / q(v)) - r log(r / s),

where v are the tokens that are not stored, and r and s are their probabilities under the target p and the model q. For
the memory that a position needs, see :class:`Distributions`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics.metric import Array
from trainables.predictions import Predictions

if TYPE_CHECKING:
    from torch import Tensor

EXACT_SIZE, TOP = 4096, 256
_ROWS = 256
"""The number of positions whose distributions are in memory at once."""


@dataclass(frozen=True, eq=False, slots=True)
class Distributions:
    """The distributions of the next token at the T supervised positions of one text, on the CPU.

    Attributes:
        tokens: ``(T, K)`` int32, the most probable tokens; None if all tokens are stored.
        probabilities: ``(T, K)`` float32, of these tokens or of all tokens. With the tokens, a position needs at most
            2 KB for a large vocabulary and 16 KB for a small one.
        mass, negentropy: ``(T,)`` float64, the sums of ``p`` and of ``p log p`` (in nats) over the stored tokens.
    """

    tokens: Tensor | None
    probabilities: Tensor
    mass: Tensor
    negentropy: Tensor


def distributions(predictions: Predictions) -> list[Distributions]:
    """Return the distributions of each text in a batch."""
    import torch

    is_exact = predictions.logits.shape[-1] <= EXACT_SIZE
    rows, columns = predictions.supervised.nonzero(as_tuple=True)
    tokens, probabilities, mass, negentropy = [], [], [], []
    for start in range(0, len(rows), _ROWS):
        part = slice(start, start + _ROWS)
        log_p = torch.log_softmax(predictions.logits[rows[part], columns[part]].float(), dim=-1)
        if not is_exact:
            log_p, indices = log_p.topk(TOP, dim=-1)
            tokens.append(indices.int().cpu())
        p = log_p.exp()
        probabilities.append(p.cpu())
        mass.append(p.double().sum(dim=-1).cpu())
        negentropy.append(torch.special.xlogy(p.double(), p.double()).sum(dim=-1).cpu())
    counts = predictions.supervised.sum(dim=1).tolist()
    token_parts = torch.cat(tokens).split(counts) if tokens else [None] * len(counts)
    parts = [torch.cat(values).split(counts) for values in (probabilities, mass, negentropy)]
    return [Distributions(*part) for part in zip(token_parts, *parts, strict=True)]


class DivergenceFromTarget:
    """Adds up ``KL(target || model)`` over the supervised positions of each text, while a model's losses are computed.

    The value at a position is capped at ``ln|V|``, so that a few positions of a broken model do not own the mean.

    Attributes:
        totals: the sum for each text: float64 ``(n,)``, in nats.
    """

    def __init__(self, target: Sequence[Distributions]) -> None:
        self._target = target
        self.totals: Array = np.zeros(len(target))

    def __call__(self, indices: Sequence[int], predictions: Predictions) -> None:
        """Add the divergence on a batch with the texts at ``indices``."""
        import torch

        logits, device = predictions.logits, predictions.logits.device
        target = [self._target[index] for index in indices]
        p = torch.cat([item.probabilities for item in target]).to(device)
        mass = torch.cat([item.mass for item in target]).to(device)
        negentropy = torch.cat([item.negentropy for item in target]).to(device)
        rows, columns = predictions.supervised.nonzero(as_tuple=True)
        labels = predictions.labels[rows, columns]
        # The loss is log Z - logit, so log Z needs no further pass over the vocabulary.
        log_z = logits[rows, columns, labels].double() + predictions.nll[rows, columns].double()
        stored_tokens = [item.tokens for item in target if item.tokens is not None]
        if stored_tokens:
            stored_logits = logits[rows[:, None], columns[:, None], torch.cat(stored_tokens).to(device).long()]
        else:
            stored_logits = logits[rows, columns]
        stored_logits = stored_logits.float()
        # The sum of p (log p - logit + log Z) over the stored tokens.
        divergence = negentropy - torch.linalg.vecdot(p, stored_logits) + mass * log_z
        if stored_tokens:
            p_rest = _rest(mass)
            q_rest = _rest((stored_logits.double() - log_z[:, None]).exp().sum(dim=-1))
            divergence += p_rest * (p_rest / q_rest).log()
        divergence = divergence.clamp(0.0, math.log(logits.shape[-1]))  # rounding errors can make it negative
        sums = torch.zeros(len(indices), dtype=torch.float64, device=device).index_add_(0, rows, divergence)
        self.totals[list(indices)] = sums.cpu().numpy()


def _rest(mass: Tensor) -> Tensor:
    """Return the probability of all other tokens. It is at least 1e-12, because of rounding errors."""
    return (1.0 - mass).clamp(min=1e-12)
