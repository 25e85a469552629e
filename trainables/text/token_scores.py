"""The scores of a text's supervised tokens, for memorisation metrics and membership inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.metrics.metric import Array

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

_ROWS = 256
"""The number of positions whose distributions are in memory at once."""


@dataclass(frozen=True, eq=False, slots=True)
class TokenScores:
    """The scores of a text's T supervised tokens, without the final EOS (as in OpenUnlearning, arXiv:2506.12618).

    ``log_probs``, ``means`` and ``stds`` are float64 ``(T,)`` in nats. ``means`` and ``stds`` describe ``log p(v)`` for
    v drawn from p. ``predicted`` (the most probable tokens) and ``labels`` (the true tokens) are token ids ``(T,)``.
    """

    log_probs: Array
    means: Array
    stds: Array
    predicted: NDArray[np.int64]
    labels: NDArray[np.int64]


def token_scores(logits: torch.Tensor, labels: torch.Tensor) -> TokenScores:
    """Return the scores of one text from the logits ``(T, V)`` and the labels ``(T,)``."""
    import torch

    columns = []
    for start in range(0, len(labels), _ROWS):
        rows, true_tokens = logits[start : start + _ROWS], labels[start : start + _ROWS]
        log_p = torch.log_softmax(rows.float(), dim=-1)
        p = log_p.exp()
        # p log p counts as 0 if p = 0, where log p is -inf.
        finite = torch.where(p > 0, log_p, torch.zeros((), device=log_p.device))
        means = (p * finite).sum(-1)
        stds = (p * (finite - means[:, None]).square()).sum(-1).sqrt()
        columns.append((log_p.gather(1, true_tokens[:, None])[:, 0], means, stds, rows.argmax(-1), true_tokens))
    arrays = [torch.cat(chunks).cpu().numpy() for chunks in zip(*columns, strict=True)]
    log_p_true, expected, spread = (values.astype(np.float64) for values in arrays[:3])
    return TokenScores(log_p_true, expected, spread, arrays[3], arrays[4])
