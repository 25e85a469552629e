"""The unlearning depth score: how much of a model's forgetting lies in its hidden states, and not only at its output.

Own code after the definition of gnueaj/unlearning-depth-score (``compute_uds.py``; arXiv:2605.24614). Differences: the
whole answer is scored instead of one entity in it, and the last block's own output is patched instead of its normalised
output. The score is one-sided: a model that destroys more than the retain model never knew is not above 1.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.attacks.attack import Attack, Effort, own_metric
from trainables.metrics.metric import QUESTIONS, RETAIN_MODEL, Array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch import Tensor
    from transformers import PreTrainedModel

    from trainables.scoring.language import ModelScores
    from trainables.text.scorer import TextScorer
    from trainables.text.tokens import Batch, Tokens

TAU = 0.05
"""A block holds knowledge of an answer if patching the retain model's states lowers log p by more than this (nats)."""


def depth_scores(retain_drops: Array, drops: Array, *, tau: float = TAU) -> Array:
    """Return the depth score of each item, ``(items,)``; NaN for an item that no block holds.

    The score is ``sum_l d_l clip(u_l / d_l, 0, 1) / sum_l d_l`` over the blocks l with ``d_l > tau``.

    Args:
        retain_drops: d, the drop of the target's mean log p of the answer's tokens when the output of a block is
            replaced by that of the retain model, ``(items, blocks)``, in nats.
        drops: u, the same with the output of the evaluated model.
    """
    import numpy as np

    weights = np.where(retain_drops > tau, retain_drops, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = np.where(weights > 0, np.clip(drops / retain_drops, 0.0, 1.0), 0.0)
        return np.asarray((weights * shares).sum(axis=1) / weights.sum(axis=1), dtype=np.float64)


def _run(scores: ModelScores) -> dict[str, float]:
    import numpy as np

    from trainables.models.checkpoints import load_model

    assert scores.target is not None
    assert scores.retain is not None
    scorer, sequences = scores.evaluator.scorer, _without_end(scores)
    model_states = _block_states(scores.model, scorer, sequences)  # first, because the target may use the same memory
    retain_model = load_model(Path(scores.retain.path)).to(scores.model.device)
    retain_states = _block_states(retain_model, scorer, sequences)
    del retain_model
    with scores.target() as target:
        unpatched = _mean_log_probs(target, scorer, sequences)
        drops = [unpatched - _patched(target, scorer, sequences, states) for states in (retain_states, model_states)]
    items = depth_scores(drops[0].T, drops[1].T)
    return {NAME: float(np.nanmean(items))} if np.isfinite(items).any() else {}


def _without_end(scores: ModelScores) -> tuple[Tokens, ...]:
    """Return the forget questions with their answers, without the end tokens."""
    from dataclasses import replace

    ends = scores.evaluator.scorer.ends
    sequences = scores.evaluator.questions["forget"].sequences
    return tuple(
        replace(item, ids=item.ids[:-1]) if item.ids[-1] in ends and len(item) > item.prompt_length + 1 else item
        for item in sequences
    )


def _batches(scorer: TextScorer, sequences: Sequence[Tokens]) -> Iterator[tuple[list[int], Batch, Tensor]]:
    """Yield batches: the indices of the sequences, the padded tokens, and a mask of the positions that predict answers.

    The mask has the shape ``(B, T)``. Position t predicts token t + 1.
    """
    from torch.nn.functional import pad

    from trainables.batches import sorted_batches
    from trainables.text.tokens import IGNORED, collate, pad_id

    for indices in sorted_batches([len(item) for item in sequences], scorer.batch_size):
        batch = collate(sequences, indices, pad_id=pad_id(scorer.tokenizer), device=scorer.device)
        yield list(indices), batch, pad(batch.labels[:, 1:] != IGNORED, (0, 1), value=False)


def _block_states(model: PreTrainedModel, scorer: TextScorer, sequences: Sequence[Tokens]) -> list[list[Tensor]]:
    """Return the output of each block at the positions that predict answers: a list of blocks for each batch.

    The shape of each tensor is (positions in the batch, d).
    """
    from trainables.predictions import evaluation_mode

    with evaluation_mode(model):
        return [_outputs(model, batch, mask) for _, batch, mask in _batches(scorer, sequences)]


def _outputs(model: PreTrainedModel, batch: Batch, mask: Tensor) -> list[Tensor]:
    from trainables.text.hidden import decoder_blocks

    states: list[Tensor] = []

    def keep(_: object, __: object, output: Tensor | tuple[Tensor, ...]) -> None:
        states.append(_state(output)[mask])

    handles = [block.register_forward_hook(keep) for block in decoder_blocks(model)]
    try:
        model(input_ids=batch.input_ids, use_cache=False)
    finally:
        for handle in handles:
            handle.remove()
    return states


def _patched(
    target: PreTrainedModel, scorer: TextScorer, sequences: Sequence[Tokens], states: Sequence[Sequence[Tensor]]
) -> Array:
    """Return the target's mean log p of each answer with the states of one block replaced, ``(blocks, items)``."""
    import numpy as np

    by_block = enumerate(zip(*states, strict=True))
    return np.stack([_mean_log_probs(target, scorer, sequences, outputs, block) for block, outputs in by_block])


def _mean_log_probs(
    model: PreTrainedModel,
    scorer: TextScorer,
    sequences: Sequence[Tokens],
    states: Sequence[Tensor] | None = None,
    block: int = 0,
) -> Array:
    """Return the mean log p of each answer's tokens in nats, ``(items,)``.

    If ``states`` are given for each batch, they replace the output of ``block``.
    """
    import numpy as np

    from trainables.predictions import evaluation_mode
    from trainables.text.losses import predict

    means = np.full(len(sequences), np.nan)
    with evaluation_mode(model):
        for number, (indices, batch, mask) in enumerate(_batches(scorer, sequences)):
            with _replaced(model, block, mask, None if states is None else states[number]):
                predicted = predict(model, batch)
            counts = predicted.supervised.sum(dim=1)
            means[indices] = (-predicted.nll.sum(dim=1) / counts).double().cpu().numpy()
    return means


@contextmanager
def _replaced(model: PreTrainedModel, block: int, mask: Tensor, states: Tensor | None) -> Iterator[None]:
    """Replace the output of a block at the positions of ``mask`` while the ``with`` block runs."""
    from trainables.text.hidden import decoder_blocks

    if states is None:
        yield
        return

    def replace_states(_: object, __: object, output: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
        patched = _state(output).clone()
        patched[mask] = states.to(patched.dtype)
        return (patched, *output[1:]) if isinstance(output, tuple) else patched

    handle = decoder_blocks(model)[block].register_forward_hook(replace_states)
    try:
        yield
    finally:
        handle.remove()


def _state(output: Tensor | tuple[Tensor, ...]) -> Tensor:
    return output[0] if isinstance(output, tuple) else output


NAME = "unlearning_depth"
ATTACK = Attack(
    name="depth",
    formula="replace the output of each block of the target, where it predicts an answer to forget, by the output of "
    "the model; compare the drop of log p with the drop that the outputs of the retain model cause (1: as deep as if "
    "never seen, 0: the knowledge is intact)",
    citation="the unlearning depth score (arXiv:2605.24614), two-stage activation patching with tau = 0.05",
    cost="two forward passes for each block, and two more",
    effort=Effort(forget_losses=50.0),
    endings={},
    attacked=(),
    own=(
        own_metric(
            name=NAME,
            label="unlearning depth",
            formula="mean over items of sum_l d_l clip(u_l / d_l, 0, 1) / sum_l d_l over blocks with d_l > 0.05 nats",
            direction="max",
            of="forget",
            needs_target=True,
        ),
    ),
    needs=(QUESTIONS, RETAIN_MODEL),
    run=_run,
)
