"""The two losses of a training step, with their graphs, as the spec's forget and retain objectives have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainables.methods import retain_objective_problem
from trainables.objectives import ForgetBatch, HiddenBatch, Reference
from trainables.objectives.retain import hidden_distance, kl_to_target
from trainables.objectives.rmu import layer_index
from trainables.predictions import Predictions, mean_loss
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.text.hidden import block_output, decoder_blocks, unit_direction

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


class StepLosses:
    """``retain(indices)`` and ``forget(indices)``: scalars to minimise, on batches of the two training sets.

    Values of the target that were precomputed are part of the state, so that a resumed run compares with the very
    same ones; a frozen target's are computed anew from the same weights.
    """

    def __init__(self, spec: TrialSpec, workspace: Workspace, model: PreTrainedModel) -> None:
        """``model`` is what the workspace handed out for ``spec``.

        Raises:
            ValueError: the objectives do not go together, or not with this model or these data.
        """
        method = spec.parsed_method
        if problem := retain_objective_problem(method, spec.retain_objective):
            raise ValueError(problem)
        self._spec = spec
        self._workspace = workspace
        self._model = model
        self._objective = method.objective
        self._options = method.resolve(dict(spec.options))
        self._forget, self._retain = workspace.train_sets(spec)
        self._references: dict[str, tuple[float, ...]] = {}
        if self._objective.reference in (Reference.SEQUENCE_NLL, Reference.PAIR_NLL):
            self._references["forget"] = tuple(workspace.target.reference_nll)
        if self._objective.reference is Reference.PAIR_NLL:
            self._refusals, self._references["refusals"] = workspace.refusals(spec)
        if self._objective.reference is Reference.HIDDEN:
            self._layer = layer_index(self._options["layer"], depth=len(decoder_blocks(model)))
            self._direction = unit_direction(model.config.get_text_config().hidden_size, seed=spec.seed)

    @property
    def retain_is_cross_entropy(self) -> bool:
        """Whether the retain loss is L_R itself, what AutoLR probes."""
        return self._spec.retain_objective == "ce" and self._objective.reference is not Reference.HIDDEN

    def state(self) -> dict[str, list[float]]:
        """The precomputed values of the target that the forget objective compares with."""
        return {name: list(values) for name, values in self._references.items()}

    def load_state(self, state: Mapping[str, Sequence[float]]) -> None:
        """Compare with these values from now on."""
        self._references |= {name: tuple(values) for name, values in state.items()}

    def retain(self, indices: Sequence[int]) -> Tensor:
        """The retain objective on a batch of the retain set."""
        batch = self._workspace.batch(self._retain, indices)
        if self._objective.reference is Reference.HIDDEN:
            with self._workspace.frozen_target() as target, self._autocast():
                reference = block_output(target, batch, self._layer)
            with self._autocast():
                hidden = block_output(self._model, batch, self._layer)
            return hidden_distance(hidden, reference, batch.attention_mask.bool())
        if self._spec.retain_objective == "kl":
            target_logits = self._target_logits(batch)
            predicted = self._predictions(batch)
            return kl_to_target(predicted.logits, target_logits, predicted.supervised)
        predicted = self._predictions(batch)
        return mean_loss(predicted.nll, predicted.supervised)

    def forget(self, indices: Sequence[int]) -> Tensor:
        """The forget objective on a batch of the forget set."""
        objective, batch = self._objective, self._workspace.batch(self._forget, indices)
        if objective.hidden_loss is not None:
            with self._autocast():
                hidden = block_output(self._model, batch, self._layer)
            return objective.hidden_loss(
                HiddenBatch(hidden, batch.attention_mask.bool(), self._direction), self._options
            )
        assert objective.loss is not None, f"{objective.name} has a loss on logits or on hidden states"
        needs = objective.reference
        target_logits = self._target_logits(batch) if needs is Reference.LOGITS else None
        predicted = self._predictions(batch)
        refusal_nll = None
        if needs is Reference.PAIR_NLL:
            refusal_nll = self._predictions(self._workspace.batch(self._refusals, indices)).nll.sum(dim=1)
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

    def _reference(self, name: str, indices: Sequence[int], *, like: Tensor) -> Tensor | None:
        values = self._references.get(name)
        return None if values is None else like.new_tensor([values[index] for index in indices])

    def _predictions(self, batch: Any) -> Predictions:
        with self._autocast():
            return self._workspace.predict(self._model, batch)

    def _target_logits(self, batch: Any) -> Tensor:
        # In an autocast context of its own: weights cached in it without gradients must not serve the model's pass.
        with self._workspace.frozen_target() as target, self._autocast():
            return self._workspace.predict(target, batch).logits

    def _autocast(self) -> Any:
        import torch

        device = torch.device(self._workspace.device).type
        return torch.autocast(device, dtype=torch.bfloat16, enabled=self._spec.dtype == "bf16")
