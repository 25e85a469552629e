"""Score every supervised token of a text, for memorisation scores and membership inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trainables.batches import sorted_batches
from trainables.metrics.items import Array
from trainables.predictions import scoring
from trainables.text.losses import predict
from trainables.text.tokens import Tokens, collate

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray
    from transformers import PreTrainedModel

_ROWS = 256
"""The number of positions whose distributions are in memory at once: 64 MB in float32 for a vocabulary of 64,000."""


@dataclass(frozen=True, eq=False, slots=True)
class TokenScores:
    """The scores of a text's T supervised tokens, without the final EOS (as in OpenUnlearning, arXiv:2506.12618).

    ``log_probs``, and the ``means`` and ``stds`` of ``log p(v)`` for tokens v drawn from p, are float64 ``(T,)`` in
    nats. ``predicted`` (the most probable tokens) and ``labels`` (the true tokens) are token ids ``(T,)``.
    """

    log_probs: Array
    means: Array
    stds: Array
    predicted: NDArray[np.int64]
    labels: NDArray[np.int64]


def token_scores(
    model: PreTrainedModel,
    sequences: Sequence[Tokens],
    *,
    pad_id: int,
    ends: Sequence[int],
    batch_size: int,
    device: torch.device | str,
) -> list[TokenScores]:
    """Return the scores of each sequence, in order. The model runs in eval mode.

    ``ends`` are the tokens that end a text. A final end token is not scored, unless it is the only supervised token.
    """
    found: list[TokenScores | None] = [None] * len(sequences)
    with scoring(model):
        for indices in sorted_batches([len(item) for item in sequences], batch_size):
            predicted = predict(model, collate(sequences, indices, pad_id=pad_id, device=device))
            for row, index in enumerate(indices):
                kept = predicted.supervised[row].nonzero()[:, 0]
                labels = predicted.labels[row, kept]
                if len(kept) > 1 and int(labels[-1]) in ends:
                    kept, labels = kept[:-1], labels[:-1]
                found[index] = _of_row(predicted.logits[row, kept], labels)
    return [item for item in found if item is not None]


def _of_row(logits: torch.Tensor, labels: torch.Tensor) -> TokenScores:
    """Return the scores of one text from its logits ``(T, V)`` and labels ``(T,)``."""
    import torch

    columns = []
    for start in range(0, len(labels), _ROWS):
        rows, truth = logits[start : start + _ROWS], labels[start : start + _ROWS]
        log_p = torch.log_softmax(rows.float(), dim=-1)
        p = log_p.exp()
        # p log p counts as 0 if p = 0, where log p is -inf.
        finite = torch.where(p > 0, log_p, torch.zeros((), device=log_p.device))
        means = (p * finite).sum(-1)
        stds = (p * (finite - means[:, None]).square()).sum(-1).sqrt()
        columns.append((log_p.gather(1, truth[:, None])[:, 0], means, stds, rows.argmax(-1), truth))
    found = [torch.cat(parts).cpu().numpy() for parts in zip(*columns, strict=True)]
    log_p_true, expected, spread = (values.astype(np.float64) for values in found[:3])
    return TokenScores(log_p_true, expected, spread, found[3], found[4])
