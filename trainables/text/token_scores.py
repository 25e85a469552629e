"""The scores of a text's supervised tokens, for membership inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics.metric import Array

if TYPE_CHECKING:
    import torch

_ROWS = 256
"""The number of positions whose distributions are in memory at once."""


@dataclass(frozen=True, eq=False, slots=True)
class TokenScores:
    """The scores of a text's T supervised tokens, without the final EOS (as in OpenUnlearning, arXiv:2506.12618).

    All arrays are float64 ``(T,)`` in nats. ``means`` and ``stds`` describe ``log p(v)`` for v drawn from p.
    """

    log_probs: Array
    means: Array
    stds: Array


def token_scores(logits: torch.Tensor, labels: torch.Tensor) -> TokenScores:
    """Return the scores of one text from the logits ``(T, V)`` and the labels ``(T,)``."""
    import torch

    log_probs, means, stds = [], [], []
    for start in range(0, len(labels), _ROWS):
        rows, true_tokens = logits[start : start + _ROWS], labels[start : start + _ROWS]
        log_p = torch.log_softmax(rows.float(), dim=-1)
        p = log_p.exp()
        # p log p counts as 0 if p = 0, where log p is -inf.
        finite = torch.where(p > 0, log_p, torch.zeros((), device=log_p.device))
        mean = (p * finite).sum(-1)
        log_probs.append(log_p.gather(1, true_tokens[:, None])[:, 0])
        means.append(mean)
        stds.append((p * (finite - mean[:, None]).square()).sum(-1).sqrt())
    return TokenScores(
        log_probs=torch.cat(log_probs).cpu().numpy().astype(np.float64),
        means=torch.cat(means).cpu().numpy().astype(np.float64),
        stds=torch.cat(stds).cpu().numpy().astype(np.float64),
    )
