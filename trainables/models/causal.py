"""Check by two forward passes that a model is a causal language model whose answers can be generated in batches.

transformers also loads encoders as causal language models, such as BERT without ``is_decoder``. Their tokens see the
tokens that they should predict, so their losses mean nothing. Other models, such as RWKV, do not ignore padding on the
left, so their answers in a batch would depend on the longest prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.models.generation import without_own_settings
from trainables.models.shapes import embedding_rows
from trainables.models.weights import LoadError
from trainables.predictions import evaluation_mode

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_LENGTH, _PADDING = 4, 2
"""The number of tokens of the text, and of padding tokens before it."""
_TOLERANCE = 1e-3
"""The largest difference of two equal logits that may come from rounding, in standard deviations of the logits."""


class NotCausalError(LoadError):
    """Raised if a model does not predict each token from the previous tokens alone."""

    exit_code = 2


def require_causal(model: PreTrainedModel, name: object) -> None:
    """Check the model ``name`` with a short text.

    Raises:
        NotCausalError: a token sees the next tokens, or padding on the left changes the next token.
    """
    import torch
    from transformers import GenerationConfig

    rows = embedding_rows(model)
    text = torch.arange(1, _LENGTH + 1) * rows // (_LENGTH + 2)
    other = torch.cat([text[:-1], (text[-1:] + 1) % rows])
    with evaluation_mode(model):
        logits, other_logits = model(input_ids=torch.stack([text, other]), use_cache=False).logits
    if _differ(logits[:-1], other_logits[:-1]):
        raise NotCausalError(
            f"{name}: a {type(model).__name__} sees the next tokens when it predicts a token, so its losses would be "
            "meaningless; use a causal language model, or set is_decoder in config.json if it was trained as one"
        )
    padded = torch.cat([text[:1].expand(_PADDING), text])[None]
    mask = (torch.arange(len(padded[0])) >= _PADDING).long()[None]
    settings = GenerationConfig(max_new_tokens=1, output_logits=True, return_dict_in_generate=True, pad_token_id=0)
    with evaluation_mode(model), without_own_settings(model):
        generated = model.generate(input_ids=padded, attention_mask=mask, generation_config=settings)
    if _differ(generated.logits[0][0], logits[-1]):
        raise NotCausalError(
            f"{name}: padding on the left changes what a {type(model).__name__} predicts, so answers that are "
            "generated in batches would be wrong; use a model that ignores padding"
        )


def _differ(first: Tensor, second: Tensor) -> bool:
    return bool((first - second).abs().max() > _TOLERANCE * second.std())
