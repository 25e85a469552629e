"""The two losses of a training step, with their graphs, and the cross-entropies that AutoLR probes, without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainables.device import on_device
from trainables.objectives import ForgetBatch, ForgetObjective, HiddenBatch, MeanOver, Reference
from trainables.objectives.retain import hidden_distance, kl_to_target
from trainables.objectives.rmu import layer_index
from trainables.predictions import Predictions, mean_loss
from trainables.run.combined_gradient import Loss
from trainables.run.workspace import Workspace
from trainables.text.hidden import block_output, decoder_blocks, unit_direction

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class StepLosses:
    """``retain(indices)`` and ``forget(indices)``: scalars to minimise, on batches of the two training sets.

    Attributes:
        references: the precomputed values of the target that the forget objective compares with. They are part of a
            run's state, so that a resumed run compares with the very same ones; a frozen target's are computed anew
            from the same weights.
    """

    def __init__(
        self,
        workspace: Workspace,
        model: PreTrainedModel,
        *,
        forget: Any,
        retain: Any,
        objective: ForgetObjective,
        options: Mapping[str, float],
        retain_objective: str,
        refusals: tuple[Any, Sequence[float]] | None,
        seed: int,
        bf16: bool,
        micro_batch: int | None,
    ) -> None:
        """``model`` is what the workspace handed out; ``refusals``: items and the target's NLL, for ``PAIR_NLL``.

        ``micro_batch``: so many examples, at most, a forward pass.

        Raises:
            ValueError: the model has no such layer as the objective's option names.
        """
        self._workspace, self._model = workspace, model
        self._forget, self._retain = forget, retain
        self._objective, self._options = objective, options
        self._retain_objective = retain_objective
        self._bf16, self._micro_batch = bf16, micro_batch
        self.references: dict[str, list[float]] = {}
        if objective.reference in (Reference.SEQUENCE_NLL, Reference.PAIR_NLL):
            self.references["forget"] = list(workspace.target.reference_nll)
        if refusals is not None:
            self._refusals, self.references["refusals"] = refusals[0], list(refusals[1])
        if objective.reference is Reference.HIDDEN:
            self._layer = layer_index(options["layer"], depth=len(decoder_blocks(model)))
            direction = unit_direction(model.config.get_text_config().hidden_size, seed=seed)
            self._direction = on_device(direction, workspace.device)

    @property
    def retain_loss_is_probe(self) -> bool:
        """Whether the retain loss is to the bit what AutoLR probes, in a model whose two modes compute the same."""
        own = self._objective.reference is Reference.HIDDEN
        return self._retain_objective == "ce" and not own and not self._bf16 and self._micro_batch is None

    def retain_parts(self, indices: Sequence[int]) -> list[Loss]:
        """Forward passes over the micro-batches of a batch of the retain set, which sum to :meth:`retain` of it."""
        hidden = self._objective.reference is Reference.HIDDEN
        return self._parts(self.retain, self._retain, indices, MeanOver.POSITIONS if hidden else MeanOver.TOKENS)

    def forget_parts(self, indices: Sequence[int]) -> list[Loss]:
        """The same for :meth:`forget`."""
        return self._parts(self.forget, self._forget, indices, self._objective.mean_over)

    def _parts(
        self, loss: Callable[[Sequence[int]], Tensor], items: Any, indices: Sequence[int], over: MeanOver
    ) -> list[Loss]:
        size = self._micro_batch or len(indices)
        if size >= len(indices):
            return [partial(loss, indices)]
        modality, chosen = self._workspace.modality, [items[index] for index in indices]
        lengths = modality.lengths(chosen)
        units = {
            MeanOver.TOKENS: modality.supervised(chosen),
            MeanOver.SEQUENCES: [1] * len(chosen),
            MeanOver.POSITIONS: lengths,
        }[over]
        # Of like lengths, for less padding, and of like sizes.
        order = sorted(range(len(chosen)), key=lambda place: lengths[place])
        count = -(-len(order) // size)
        cuts = [len(order) * number // count for number in range(count + 1)]
        return [
            _summand(
                partial(loss, [indices[place] for place in part]), sum(units[place] for place in part) / sum(units)
            )
            for part in (order[first:last] for first, last in pairwise(cuts))
        ]

    def retain(self, indices: Sequence[int]) -> Tensor:
        """The retain objective on a batch of the retain set."""
        batch = self._workspace.batch(self._retain, indices)
        if self._objective.reference is Reference.HIDDEN:
            with self._workspace.frozen_target() as target:
                reference = self._hidden(target, batch)
            return hidden_distance(self._hidden(self._model, batch), reference, batch.attention_mask.bool())
        target_logits = self._target_logits(batch) if self._retain_objective == "kl" else None
        predicted = self._predictions(self._model, batch)
        if target_logits is not None:
            return kl_to_target(predicted.logits, target_logits, predicted.supervised)
        return mean_loss(predicted.nll, predicted.supervised)

    def forget(self, indices: Sequence[int]) -> Tensor:
        """The forget objective on a batch of the forget set."""
        objective, batch = self._objective, self._workspace.batch(self._forget, indices)
        if objective.hidden_loss is not None:
            hidden = self._hidden(self._model, batch)
            return objective.hidden_loss(
                HiddenBatch(hidden, batch.attention_mask.bool(), self._direction), self._options
            )
        assert objective.loss is not None, f"{objective.name} has a loss on logits or on hidden states"
        target_logits = self._target_logits(batch) if objective.reference is Reference.LOGITS else None
        predicted = self._predictions(self._model, batch)
        refusal_nll = None
        if objective.reference is Reference.PAIR_NLL:
            refused = self._workspace.batch(self._refusals, indices)
            refusal_nll = self._predictions(self._model, refused).nll.sum(dim=1)
        known = ForgetBatch(
            logits=predicted.logits,
            labels=predicted.labels,
            token_nll=predicted.nll,
            supervised=predicted.supervised,
            reference_nll=self._reference("forget", indices, like=predicted.nll),
            refusal_nll=refusal_nll,
            reference_refusal_nll=self._reference("refusals", indices, like=predicted.nll),
            reference_logits=target_logits,
        )
        return objective.loss(known, self._options)

    def retain_probe(self, batches: Sequence[Sequence[int]]) -> Callable[[], float]:
        """``L_R`` over several batches of the retain set, whatever the retain objective is; see :meth:`_probe`."""
        return self._probe(self._retain, batches)

    def forget_probe(self, batches: Sequence[Sequence[int]]) -> Callable[[], float]:
        """``L_F`` over several batches of the forget set; see :meth:`_probe`."""
        return self._probe(self._forget, batches)

    def _probe(self, items: Any, numbers: Sequence[Sequence[int]]) -> Callable[[], float]:
        """The mean cross-entropy over all tokens of some batches, to be called without gradients.

        In float32 also under bf16: a step of 1e-5 is below bf16's resolution, so a parabola would fit its rounding;
        and within one autocast context the cached bf16 weights would hide the step altogether.
        """
        batches = [self._workspace.batch(items, indices) for indices in numbers]

        def loss() -> float:
            terms = [self._workspace.predict(self._model, batch) for batch in batches]
            return float(sum(item.nll.double().sum() for item in terms) / sum(item.supervised.sum() for item in terms))

        return loss

    def _reference(self, name: str, indices: Sequence[int], *, like: Tensor) -> Tensor | None:
        values = self.references.get(name)
        if values is None:
            return None
        return on_device(torch.tensor([values[index] for index in indices], dtype=like.dtype), like.device)

    def _predictions(self, model: PreTrainedModel, batch: Any) -> Predictions:
        with self._autocast():
            return self._workspace.predict(model, batch)

    def _hidden(self, model: PreTrainedModel, batch: Any) -> Tensor:
        with self._autocast():
            return block_output(model, batch, self._layer)

    def _target_logits(self, batch: Any) -> Tensor:
        # In an autocast context of its own: weights cached in it without gradients must not serve the model's pass.
        with self._workspace.frozen_target() as target:
            return self._predictions(target, batch).logits

    def _autocast(self) -> Any:
        return torch.autocast(torch.device(self._workspace.device).type, dtype=torch.bfloat16, enabled=self._bf16)


def _summand(loss: Loss, share: float) -> Loss:
    return lambda: share * loss()
