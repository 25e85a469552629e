"""Compute the retain loss and the forget loss of a training step, and the losses that AutoLR measures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from trainables.device import on_device
from trainables.objectives import ForgetBatch, HiddenBatch, MeanOver, Reference
from trainables.objectives.retain import DIVERGENCES, hidden_distance
from trainables.objectives.rmu import layer_index
from trainables.predictions import Predictions, mean_loss
from trainables.run.combined_gradient import Loss
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.text.hidden import block_output, decoder_blocks, unit_direction
from trainables.weightings import Needs

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class StepLosses:
    """Computes the losses of a training step.

    Args:
        preferred: the forget items with preferred answers, and the target's NLL of each of these answers; only for
            objectives that need them. If there are several answers to each question, the first answers to all questions
            come first. Pass ``n`` over the forget set uses the ``n``-th answers, and then starts again.
        micro_batch: the maximum number of examples per forward pass; None for the whole batch.

    Attributes:
        references: the target's NLL of each forget example (key ``forget``) and of each preferred answer (key
            ``preferred``), if the objective needs them. A run's saved state includes the references.
        pass_number: the number of completed passes over the forget set.

    Raises:
        ValueError: an option of the objective names a layer that the model does not have.
    """

    def __init__(
        self,
        spec: TrialSpec,
        workspace: Workspace,
        model: PreTrainedModel,
        *,
        preferred: tuple[Any, Sequence[float]] | None = None,
        micro_batch: int | None = None,
    ) -> None:
        method = spec.parsed_method
        self._workspace, self.model = workspace, model
        self._forget, self._retain = workspace.train_sets
        self._objective, self._options = method.objective, spec.option_values
        self._retain_objective = spec.retain_objective
        self._bf16 = spec.dtype == "bf16"
        self._micro_batch = micro_batch
        self._retain_micro_batch = 1 if method.weighting.needs is Needs.RETAIN_EXAMPLES else micro_batch
        self.references: dict[str, list[float]] = {}
        self.pass_number = 0
        if self._objective.reference is Reference.SEQUENCE_NLL or self._objective.reference.has_preferred_answers:
            self.references["forget"] = list(workspace.target.reference_nll)
        if preferred is not None:
            self._preferred, preferred_nll = preferred
            self.references["preferred"] = list(preferred_nll)
        if self._objective.reference is Reference.HIDDEN:
            self._layer = layer_index(self._options["layer"], depth=len(decoder_blocks(model)))
            direction = unit_direction(model.config.get_text_config().hidden_size, seed=spec.seed)
            self._direction = on_device(direction, workspace.device)

    @property
    def retain_loss_is_probe(self) -> bool:
        """Whether a step's retain loss equals :meth:`retain_probe` on the same batch, up to float32 rounding."""
        is_cross_entropy = self._retain_objective == "ce" and self._objective.reference is not Reference.HIDDEN
        same_passes = not self._bf16 and self._retain_micro_batch is None and self._workspace.train_mode_is_eval_mode
        return is_cross_entropy and same_passes

    def retain_summands(self, indices: Sequence[int]) -> list[Loss]:
        """Return one function per micro-batch. The values of the functions add up to the retain loss of the batch."""
        is_hidden = self._objective.reference is Reference.HIDDEN
        mean_over = MeanOver.POSITIONS if is_hidden else MeanOver.TOKENS
        return self._summands(self.retain, self._retain, indices, mean_over, self._retain_micro_batch)

    def forget_summands(self, indices: Sequence[int]) -> list[Loss]:
        """Return one function per micro-batch. The values of the functions add up to the forget loss of the batch."""
        return self._summands(self.forget, self._forget, indices, self._objective.mean_over, self._micro_batch)

    def forget_cross_entropy_summands(self, indices: Sequence[int]) -> list[Loss]:
        """Return functions whose values add up to ``L_F``, the mean cross-entropy per token of the forget batch."""

        def loss(part: Sequence[int]) -> Tensor:
            predicted = self._predictions(self.model, self._workspace.batch(self._forget, part))
            return mean_loss(predicted.nll, predicted.supervised)

        return self._summands(loss, self._forget, indices, MeanOver.TOKENS, self._micro_batch)

    def _summands(
        self,
        loss: Callable[[Sequence[int]], Tensor],
        items: Any,
        indices: Sequence[int],
        mean_over: MeanOver,
        micro_batch: int | None,
    ) -> list[Loss]:
        if micro_batch is None or micro_batch >= len(indices):
            return [partial(loss, indices)]
        batch_items = [items[index] for index in indices]
        lengths = self._workspace.modality.lengths(batch_items)
        if mean_over is MeanOver.TOKENS:
            units = self._workspace.modality.supervised(batch_items)
        elif mean_over is MeanOver.SEQUENCES:
            units = [1] * len(batch_items)
        else:
            units = lengths
        # Micro-batches of similar lengths need less padding.
        order = sorted(range(len(batch_items)), key=lambda position: lengths[position])
        count = math.ceil(len(order) / micro_batch)
        bounds = [len(order) * number // count for number in range(count + 1)]
        micro_batches = [order[first:last] for first, last in pairwise(bounds)]

        def summand(positions: Sequence[int]) -> Tensor:
            share = sum(units[position] for position in positions) / sum(units)
            return share * loss([indices[position] for position in positions])

        return [partial(summand, positions) for positions in micro_batches]

    def retain(self, indices: Sequence[int]) -> Tensor:
        batch = self._workspace.batch(self._retain, indices)
        if self._objective.reference is Reference.HIDDEN:
            with self._workspace.frozen_target() as target:
                reference = self._hidden(target, batch)
            return hidden_distance(self._hidden(self.model, batch), reference, batch.attention_mask.bool())
        if self._retain_objective in DIVERGENCES:
            target_logits = self._target_logits(batch)
            predicted = self._predictions(self.model, batch)
            return DIVERGENCES[self._retain_objective](predicted.logits, target_logits, predicted.supervised)
        predicted = self._predictions(self.model, batch)
        return mean_loss(predicted.nll, predicted.supervised)

    def forget(self, indices: Sequence[int]) -> Tensor:
        objective, batch = self._objective, self._workspace.batch(self._forget, indices)
        if objective.hidden_loss is not None:
            hidden = self._hidden(self.model, batch)
            hidden_batch = HiddenBatch(hidden, batch.attention_mask.bool(), self._direction)
            return objective.hidden_loss(hidden_batch, self._options)
        assert objective.loss is not None, f"{objective.name} needs a loss on logits or on hidden states"
        target_logits = self._target_logits(batch) if objective.reference is Reference.LOGITS else None
        predicted = self._predictions(self.model, batch)
        preferred_nll = preferred_probability = None
        preferred_indices: Sequence[int] = ()
        if objective.reference.has_preferred_answers:
            offset = self.pass_number * len(self._forget) % len(self._preferred)
            preferred_indices = [index + offset for index in indices]
            preferred = self._predictions(self.model, self._workspace.batch(self._preferred, preferred_indices))
            preferred_nll = preferred.nll.sum(dim=1)
            probabilities = (-preferred.nll).exp() * preferred.supervised
            preferred_probability = probabilities.sum(dim=1) / preferred.supervised.sum(dim=1)
        forget_batch = ForgetBatch(
            logits=predicted.logits,
            labels=predicted.labels,
            token_nll=predicted.nll,
            supervised=predicted.supervised,
            reference_nll=self._reference("forget", indices, like=predicted.nll),
            preferred_nll=preferred_nll,
            preferred_probability=preferred_probability,
            reference_preferred_nll=self._reference("preferred", preferred_indices, like=predicted.nll),
            reference_logits=target_logits,
            refusal_tokens=self._refusal_tokens(predicted.supervised),
        )
        return objective.loss(forget_batch, self._options)

    def retain_probe(self, batches: Sequence[Sequence[int]]) -> Callable[[], float]:
        """Return a function that computes ``L_R``, the mean cross-entropy per token on these retain batches.

        The result does not depend on the retain objective. Call the function under ``no_grad``.
        """
        return self._probe(self._retain, batches)

    def forget_probe(self, batches: Sequence[Sequence[int]]) -> Callable[[], float]:
        """Return a function that computes ``L_F``, the mean cross-entropy per token on these forget batches.

        Call the function under ``no_grad``.
        """
        return self._probe(self._forget, batches)

    def _probe(self, items: Any, indices_by_batch: Sequence[Sequence[int]]) -> Callable[[], float]:
        batches = [self._workspace.batch(items, indices) for indices in indices_by_batch]

        def loss() -> float:
            # No autocast: bf16 cannot resolve a change of the weights by 1e-5, and autocast caches bf16 weights.
            predictions = [self._workspace.modality.predict(self.model, batch) for batch in batches]
            total_nll = sum(predicted.nll.double().sum() for predicted in predictions)
            token_count = sum(predicted.supervised.sum() for predicted in predictions)
            return float(total_nll / token_count)

        return loss

    def _reference(self, name: str, indices: Sequence[int], *, like: Tensor) -> Tensor | None:
        values = self.references.get(name)
        if values is None:
            return None
        return on_device(torch.tensor([values[index] for index in indices], dtype=like.dtype), like.device)

    def _refusal_tokens(self, supervised: Tensor) -> Tensor | None:
        """Return the refusal's tokens, repeated over the supervised positions of each sequence."""
        if self._objective.reference is not Reference.REFUSAL_TOKENS:
            return None
        tokens = on_device(torch.tensor(self._workspace.refusal_tokens), supervised.device)
        return tokens[(supervised.cumsum(dim=1) - 1) % len(tokens)]

    def _predictions(self, model: PreTrainedModel, batch: Any) -> Predictions:
        with self._autocast():
            return self._workspace.modality.predict(model, batch)

    def _hidden(self, model: PreTrainedModel, batch: Any) -> Tensor:
        with self._autocast():
            return block_output(model, batch, self._layer)

    def _target_logits(self, batch: Any) -> Tensor:
        # In a shared autocast context, the model would reuse bf16 weights that this pass cached without gradients.
        with self._workspace.frozen_target() as target:
            return self._predictions(target, batch).logits

    def _autocast(self) -> Any:
        return torch.autocast(torch.device(self._workspace.device).type, dtype=torch.bfloat16, enabled=self._bf16)
