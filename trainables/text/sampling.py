"""Sample several answers to each prompt. Equal beginnings of the answers to a prompt are computed only once."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainables.text.tokens import left_padded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class _Beginning:
    """The first tokens that some samples of a prompt share. ``samples`` are positions in the list of all samples."""

    prompt: int
    tokens: tuple[int, ...]
    samples: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """Samples continuations of prompts at temperature 1, until one of the tokens ``ends``.

    Each sample has its own uniform random numbers u. Its t-th token is the first token whose cumulative probability
    exceeds u_t (inverse transform sampling). Up to rounding, the samples therefore do not depend on the batches, and
    all models are sampled with the same random numbers. Samples with the same first tokens share one row of a batch
    until their next tokens differ, so a model that is sure of its answers needs little more time than for one answer.

    Attributes:
        batch_size: the maximum number of rows in a batch.
        context_length: the number of tokens that the model accepts.
    """

    model: PreTrainedModel
    ends: Collection[int]
    pad_id: int
    batch_size: int
    context_length: int

    def sample(
        self, prompts: Sequence[Sequence[int]], *, n: int, limits: Sequence[int], seed: int
    ) -> list[list[tuple[int, ...]]]:
        """Return the tokens of ``n`` independent continuations of each prompt. End tokens are included.

        ``limits`` has the maximum number of tokens of each prompt's continuations: at least 1, and at most the number
        of tokens for which the context has room.
        """
        import torch

        random = torch.Generator().manual_seed(seed)
        uniforms = torch.rand((len(prompts) * n, max(limits, default=0)), dtype=torch.float64, generator=random)
        results: list[tuple[int, ...]] = [()] * len(uniforms)
        pending = [_Beginning(index, (), list(range(index * n, index * n + n))) for index in range(len(prompts))]
        while pending:
            pending.sort(key=lambda item: len(prompts[item.prompt]) + len(item.tokens))
            rows, pending = pending[: self.batch_size], pending[self.batch_size :]
            pending += self._continue(rows, prompts, limits, uniforms, results)
        return [results[index * n : index * n + n] for index in range(len(prompts))]

    def _continue(
        self,
        rows: Sequence[_Beginning],
        prompts: Sequence[Sequence[int]],
        limits: Sequence[int],
        uniforms: Tensor,
        results: list[tuple[int, ...]],
    ) -> list[_Beginning]:
        """Continue a batch until its samples have ended or the context is full. Write ended samples to ``results``.

        Return the beginnings that are left. If the samples need more rows than the batch has, some are left, too.
        """
        import torch
        from transformers import GenerationConfig

        inputs = [[*prompts[item.prompt], *item.tokens] for item in rows]
        needed = max(limits[item.prompt] - len(item.tokens) for item in rows)
        steps = min(needed, self.context_length - max(map(len, inputs)))
        left: list[_Beginning] = []

        def decode(model: PreTrainedModel, input_ids: Tensor, **options: Any) -> Tensor:
            batch, new_tokens = rows, None
            state = {name: value for name, value in options.items() if name not in _SETTINGS}
            for _ in range(steps):
                step = model.prepare_inputs_for_generation(input_ids, next_sequence_length=new_tokens, **state)
                outputs = model(**step, return_dict=True)
                state = model._update_model_kwargs_for_generation(outputs, state)
                unfinished = []
                for row, item in _grown(batch, outputs.logits[:, -1], uniforms):
                    if item.tokens[-1] in self.ends or len(item.tokens) >= limits[item.prompt]:
                        for sample in item.samples:
                            results[sample] = item.tokens
                    else:
                        unfinished.append((row, item))
                left.extend(item for _, item in unfinished[self.batch_size :])
                parents = [row for row, _ in unfinished[: self.batch_size]]
                batch = [item for _, item in unfinished[: self.batch_size]]
                if not batch:
                    break
                index = torch.tensor(parents, device=input_ids.device)
                last = torch.tensor([[item.tokens[-1]] for item in batch], device=input_ids.device)
                input_ids, new_tokens = torch.cat([input_ids[index], last], dim=1), 1
                state = {name: _selected(value, index) for name, value in state.items()}
            left.extend(batch)
            return input_ids

        ids, mask = left_padded(inputs, pad_id=self.pad_id, device=self.model.device)
        settings = GenerationConfig(max_new_tokens=steps, use_cache=True, pad_token_id=self.pad_id)
        self.model.generate(input_ids=ids, attention_mask=mask, generation_config=settings, custom_generate=decode)
        return left


_SETTINGS = ("logits_processor", "stopping_criteria", "generation_config", "synced_gpus", "streamer")
"""The arguments of a decoding function of transformers that are not inputs of the model."""


def _grown(rows: Sequence[_Beginning], logits: Tensor, uniforms: Tensor) -> list[tuple[int, _Beginning]]:
    """Draw the next token of each sample. Return the longer beginnings, each with the index of its row.

    ``logits`` are those of the next token of each row, ``(rows, V)``.
    """
    import torch

    most = max(len(item.samples) for item in rows)
    numbers = torch.zeros((len(rows), most), dtype=torch.float64)
    for row, item in enumerate(rows):
        numbers[row, : len(item.samples)] = uniforms[item.samples, len(item.tokens)]
    cumulative = torch.softmax(logits.float(), dim=-1).cumsum(dim=-1, dtype=torch.float64)
    drawn = torch.searchsorted(cumulative, numbers.to(logits.device) * cumulative[:, -1:], right=True)
    tokens_by_row = drawn.clamp(max=logits.shape[-1] - 1).tolist()
    grown = []
    for row, (item, tokens) in enumerate(zip(rows, tokens_by_row, strict=True)):
        samples: dict[int, list[int]] = {}
        for sample, token in zip(item.samples, tokens, strict=False):
            samples.setdefault(token, []).append(sample)
        grown += [(row, _Beginning(item.prompt, (*item.tokens, token), same)) for token, same in samples.items()]
    return grown


def _selected(value: Any, rows: Tensor) -> Any:
    """Return the chosen rows of an input of the model: of a cache, or of a tensor with one row per row of the batch."""
    import torch
    from transformers import Cache

    if isinstance(value, Cache):
        value.reorder_cache(rows)
        return value
    return value[rows] if isinstance(value, torch.Tensor) and value.dim() > 1 else value
