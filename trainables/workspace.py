"""What one process loads once and every trial in it uses: the target's weights, its processor, the encoded data."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.losses import Predictions
from trainables.modality import ModelEvaluator, modality_of
from trainables.spec import TrialSpec
from trainables.target import Target

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PreTrainedModel


class Workspace:
    """A target loaded on one device. ``model_for`` hands out the same module again and again, its weights reset.

    The pristine weights stay in host memory and are only ever copied from, so that no trial can change what the next
    one starts with. ``tokenizer`` is the model's processor: of an image classifier its image processor.
    """

    def __init__(self, target: Target, *, device: torch.device | str) -> None:
        self.target = target
        self.device = device
        self.modality = modality_of(target.data)
        self.tokenizer = self.modality.load_processor(target.path)
        self._model: PreTrainedModel = self.modality.load_model(Path(target.path)).to(device)
        self._pristine: dict[str, Tensor] = {
            name: tensor.detach().to("cpu", copy=True) for name, tensor in self._model.state_dict().items()
        }
        self._adapted: PreTrainedModel | None = None
        self._checkpointing = False
        self._evaluators: dict[tuple[int, int], ModelEvaluator] = {}
        self._train_sets: dict[int, tuple[Any, Any]] = {}

    def model_for(self, spec: TrialSpec) -> PreTrainedModel:
        """The target's model, weights reset, in train mode; with ``lora_rank`` a PEFT model with a fresh adapter.

        Invalidates the model handed out before.
        """
        import torch

        if self._adapted is not None:
            self._model = self._adapted.unload()
            self._adapted = None
        with torch.no_grad():
            for name, tensor in self._model.state_dict().items():
                tensor.copy_(self._pristine[name])
        for parameter in self._model.parameters():
            parameter.requires_grad_(True)
            parameter.grad = None
        model = self._model
        if spec.lora_rank is not None:
            model = self._adapted = add_adapter(model, rank=spec.lora_rank, seed=spec.seed)
        if spec.gradient_checkpointing != self._checkpointing:
            (
                self._model.gradient_checkpointing_enable
                if spec.gradient_checkpointing
                else self._model.gradient_checkpointing_disable
            )()
            self._checkpointing = spec.gradient_checkpointing
        if spec.gradient_checkpointing and spec.lora_rank is not None:
            # Frozen embeddings give activations without gradients, which checkpointing would stop at.
            model.enable_input_require_grads()
        return model.train()

    def train_sets(self, spec: TrialSpec) -> tuple[Any, Any]:
        """The items of the forget set and of the retain set."""
        if spec.max_length not in self._train_sets:
            data = self.target.data
            self._train_sets[spec.max_length] = (
                self.modality.encode(self.tokenizer, data.forget, max_length=spec.max_length),
                self.modality.encode(self.tokenizer, data.retain, max_length=spec.max_length),
            )
        return self._train_sets[spec.max_length]

    def batch(self, items: Any, indices: Sequence[int]) -> Any:
        """The items at ``indices`` as one batch on the workspace's device."""
        return self.modality.collate(items, indices, processor=self.tokenizer, device=self.device)

    def predict(self, model: PreTrainedModel, batch: Any) -> Predictions:
        """What ``model`` predicts on a batch."""
        return self.modality.predict(model, batch)

    def evaluator(self, spec: TrialSpec) -> ModelEvaluator:
        """The evaluator for the spec's maximum length and evaluation batch size."""
        key = (spec.max_length, spec.eval_batch_size)
        if key not in self._evaluators:
            self._evaluators[key] = self.modality.evaluator(
                self.target.data,
                self.tokenizer,
                classes=self.target.vocabulary_size,
                max_length=spec.max_length,
                batch_size=spec.eval_batch_size,
                device=self.device,
            )
        return self._evaluators[key]

    @cached_property
    def train_mode_is_eval_mode(self) -> bool:
        """Whether the model computes the same in both modes: no active dropout, no batch statistics."""
        import torch

        dropouts = [
            value for key, value in self._model.config.to_dict().items() if "drop" in key or key.endswith("_pdrop")
        ]
        modules = any(isinstance(module, torch.nn.modules.batchnorm._BatchNorm) for module in self._model.modules())
        return not modules and not any(isinstance(value, (int, float)) and value > 0 for value in dropouts)


def add_adapter(model: PreTrainedModel, *, rank: int, seed: int) -> PreTrainedModel:
    """The model under a fresh LoRA adapter on all linear layers but the head (alpha = 2 rank, no dropout)."""
    import torch
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type=TaskType.CAUSAL_LM
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        adapted: PreTrainedModel = get_peft_model(model, copy.deepcopy(config))
    return adapted
