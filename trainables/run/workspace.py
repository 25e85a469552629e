"""Load the target's weights, its processor (tokenizer or image processor) and the encoded data once per process."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from trainables.data.errors import DataError
from trainables.data.refusals import refusal
from trainables.modality import ModelEvaluator, modality_of
from trainables.modality.evaluation import evaluate_items
from trainables.models.adapters import add_adapter
from trainables.models.stored_weights import StoredWeights
from trainables.objectives.jensun import REFUSAL
from trainables.target.alternates import alternate_answers
from trainables.target.target import Target

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Workspace:
    """A target, loaded on one device, and the model that is unlearned.

    Attributes:
        processor: the model's tokenizer or image processor.
    """

    def __init__(self, target: Target, *, device: torch.device | str) -> None:
        self.target = target
        self.device = device
        self.modality = modality_of(target.data, target.template)
        self.processor = self.modality.load_processor(target.path)
        self._model: PreTrainedModel = self.modality.load_model(Path(target.path)).to(device)
        # The workers on a machine share this copy, which never changes.
        self._target_weights = StoredWeights(self._model, Path(target.path))
        self._lora_model: PreTrainedModel | None = None
        self._frozen_copy: PreTrainedModel | None = None
        self._checkpointing = False
        # The keys have batch sizes, because results with different batch sizes differ in the last digits.
        self._preferred: dict[tuple[int, int | None], tuple[Any, tuple[float, ...]]] = {}
        self._evaluators: dict[int, ModelEvaluator] = {}

    def model_for(
        self, *, lora_rank: int | None = None, seed: int = 0, gradient_checkpointing: bool = False
    ) -> PreTrainedModel:
        """Return the workspace's model with the target's weights, in train mode.

        The workspace has only one model, so this call resets the model that the previous call returned. If
        ``lora_rank`` is not None, the model gets a new PEFT adapter of this rank.
        """
        model = self._reset()
        if lora_rank is not None:
            model = add_adapter(model, rank=lora_rank, seed=seed)
            self._lora_model = model
        if gradient_checkpointing:
            self._model.gradient_checkpointing_enable()
            self._checkpointing = True
            if lora_rank is not None:
                # Outputs of frozen embeddings do not require gradients, so checkpointing would cut the graph there.
                self._remove_input_hooks()
                self._model.enable_input_require_grads()
        return model.train()

    def _reset(self) -> PreTrainedModel:
        self._frozen_copy = None
        if self._lora_model is not None:
            self._model = self._lora_model.unload()
            self._lora_model = None
        if self._checkpointing:  # disable it before an adapter is added, otherwise PEFT adds hooks to the embeddings
            self._model.gradient_checkpointing_disable()
            self._remove_input_hooks()
            self._checkpointing = False
        self._target_weights.load_into(self._model)
        for parameter in self._model.parameters():
            parameter.requires_grad_(True)
            parameter.grad = None
        return self._model

    def _remove_input_hooks(self) -> None:
        # Disabling checkpointing does not remove its hooks. Enabling it twice loses the handles of the first hooks.
        if hasattr(self._model, "_require_grads_hook"):
            self._model.disable_input_require_grads()

    @contextmanager
    def frozen_target(self) -> Iterator[PreTrainedModel]:
        """Yield the target in eval mode, without gradients. The model that is being trained does not change.

        With LoRA, the target needs no extra memory. Otherwise, the target is a second model, which stays in memory
        until the next run starts.
        """
        if self._lora_model is not None:
            training = self._lora_model.training
            self._lora_model.eval()
            try:
                with torch.no_grad(), self._lora_model.disable_adapter():
                    yield self._lora_model
            finally:
                self._lora_model.train(training)
            return
        if self._frozen_copy is None:
            self._frozen_copy = copy.deepcopy(self._model)
            self._target_weights.load_into(self._frozen_copy)
            self._frozen_copy.requires_grad_(False).eval()
        with torch.no_grad():
            yield self._frozen_copy

    @contextmanager
    def target_model(self) -> Iterator[PreTrainedModel]:
        """Yield a model with the target's weights. Afterwards, the workspace's model has its own weights again.

        Without LoRA, the model's own weights are in host memory while the block runs, so no GPU memory is needed.
        """
        if self._lora_model is not None or self._frozen_copy is not None:
            with self.frozen_target() as model:
                yield model
            return
        own_weights = {name: tensor.to("cpu", copy=True) for name, tensor in self._model.state_dict().items()}
        self._target_weights.load_into(self._model)
        try:
            yield self._model
        finally:
            with torch.no_grad():
                for name, tensor in self._model.state_dict().items():
                    tensor.copy_(own_weights[name])

    def refusals(self, *, batch_size: int) -> tuple[Any, tuple[float, ...]]:
        """Return the forget questions with refusals as answers, and the target's summed NLL (nats) of each refusal.

        Call this method before :meth:`model_for`, because this method may reset the model.

        Raises:
            DataError: the forget set has texts without questions.
        """
        forget: Any = self.target.data.forget
        answers = [refusal(example.question) for example in forget]
        return self._answered((batch_size, None), lambda: answers)

    def alternates(self, *, batch_size: int, seed: int) -> tuple[Any, tuple[float, ...]]:
        """Return the forget questions with the target's alternate answers, and the target's summed NLL of each answer.

        The first answers to all questions come first. Call this method before :meth:`model_for`, as for refusals.

        Raises:
            DataError: the forget set has texts without questions.
        """

        def answers() -> list[str]:
            evaluator: Any = self.evaluator(batch_size=batch_size)  # of a language model
            return alternate_answers(self._reset(), self.target, evaluator.scorer, seed=seed)

        return self._answered((batch_size, seed), answers)

    def _answered(
        self, key: tuple[int, int | None], answers: Callable[[], Sequence[str]]
    ) -> tuple[Any, tuple[float, ...]]:
        if key not in self._preferred:
            forget: Any = self.target.data.forget
            if any(example.is_text for example in forget):
                raise DataError("the method prefers another answer to each question, but the forget set has texts")
            pairs = zip(itertools.cycle(forget), answers(), strict=False)
            items = self._encode([replace(example, answer=answer) for example, answer in pairs])
            losses = evaluate_items(self.modality, self._reset(), items, processor=self.processor, batch_size=key[0])
            self._preferred[key] = (items, tuple(losses.totals.tolist()))
        return self._preferred[key]

    @cached_property
    def refusal_tokens(self) -> tuple[int, ...]:
        """The tokens of a fixed refusal as the answer to a question, without the end token."""
        forget: Any = self.target.data.forget
        (item,) = self._encode([replace(forget[0], answer=REFUSAL)])
        return tuple(item.ids[item.prompt_length : -1])

    @cached_property
    def train_sets(self) -> tuple[Any, Any]:
        """The encoded forget set and the encoded retain set."""
        return self._encode(self.target.data.forget), self._encode(self.target.data.retain)

    def _encode(self, examples: Any) -> Any:
        return self.modality.encode(self.processor, examples, max_length=self.target.max_length)

    def batch(self, items: Any, indices: Sequence[int]) -> Any:
        return self.modality.collate(items, indices, processor=self.processor, device=self.device)

    def evaluator(self, *, batch_size: int) -> ModelEvaluator:
        if batch_size not in self._evaluators:
            self._evaluators[batch_size] = self.modality.evaluator(
                self.target.data,
                self.processor,
                classes=self.target.vocabulary_size,
                max_length=self.target.max_length,
                batch_size=batch_size,
                device=self.device,
            )
        return self._evaluators[batch_size]

    @cached_property
    def train_mode_is_eval_mode(self) -> bool:
        """Whether the model has neither dropout nor batch norm, so its outputs are equal in train and eval mode."""
        dropout_values = [value for key, value in self._model.config.to_dict().items() if "drop" in key]
        has_dropout = any(isinstance(value, (int, float)) and value > 0 for value in dropout_values)
        batch_norm_class = torch.nn.modules.batchnorm._BatchNorm
        has_batch_norm = any(isinstance(module, batch_norm_class) for module in self._model.modules())
        return not has_dropout and not has_batch_norm
