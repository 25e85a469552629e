"""The number of tokens that a language model knows, and the longest sequence that it accepts.

Models with rotary positions or ALiBi accept sequences of any length. Models with a table of positions do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_TABLES = ("embed_positions", "pos_encoding")
"""The names of buffers with one row per position, as in GPT-J, CodeGen and CTRL."""


def embedding_rows(model: PreTrainedModel) -> int:
    """Return the number of tokens for which the model has an embedding and a logit."""
    rows: list[int] = [model.get_input_embeddings().weight.shape[0]]
    head = model.get_output_embeddings()
    if head is not None:
        rows.append(head.weight.shape[0])
    return min(rows)


def position_limit(model: PreTrainedModel) -> int | None:
    """Return the number of tokens that a sequence can have; None if the model accepts any length.

    The limit is the number of rows in the table of the model's learned positions. Some models reserve the first rows.
    """
    from torch.nn import Embedding

    limits = []
    for path, module in model.named_modules():
        name = path.rpartition(".")[2]
        if isinstance(module, Embedding) and (name == "wpe" or "position" in name):
            reserved = getattr(module, "offset", None)  # OPT
            if reserved is None:
                reserved = 0 if module.padding_idx is None else module.padding_idx + 1  # RoBERTa
            limits.append(module.num_embeddings - reserved)
    limits += [len(table) for path, table in model.named_buffers() if path.rpartition(".")[2] in _TABLES]
    if model.config.model_type == "mpt":
        limits.append(model.config.max_seq_len)
    return min(limits, default=None)
