"""Generate greedy continuations of many prompts at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.batches import sorted_batches
from trainables.predictions import scoring
from trainables.text.tokens import pad_id

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def generation_batch_size(model: PreTrainedModel, batch_size: int, *, longest: int, max_length: int) -> int:
    """Return the batch size for generation, if scoring uses ``batch_size`` sequences of up to ``max_length`` tokens.

    A generation step with a few more rows takes about the same time. Scoring needs memory for the logits of every
    position, and generation needs memory for keys and values. So the batch for generation has up to four times as many
    rows, as long as twice its keys and values need no more memory than the logits, and it has no more tokens.
    """
    config = model.config.get_text_config()
    query_heads = getattr(config, "num_attention_heads", None)
    if query_heads is None:
        return batch_size
    heads = getattr(config, "num_key_value_heads", None) or query_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // query_heads
    size = model.dtype.itemsize
    kept: int = 2 * config.num_hidden_layers * heads * width * size
    scored: int = config.vocab_size * (size + 2 * 4)  # logits, and float32 copies around the softmax
    return batch_size * max(1, min(4, scored // (2 * kept), max_length // longest))


def generate_greedy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    batch_size: int,
    device: torch.device | str,
    strip: bool = True,
    prefixes: Sequence[Sequence[int]] | None = None,
    ends: Sequence[int] = (),
) -> list[str]:
    """Return the greedy continuation of each prompt as text, in order, without special tokens, stripped if ``strip``.

    Prompts are left-padded in batches of similar length. Generation stops after ``max_new_tokens`` tokens, or at one of
    the tokens ``ends`` (EOS if not given). ``prefixes`` has the first tokens of each continuation, if they are known.
    They count towards the length. If they contain an end token, the continuation is complete.
    """
    import torch

    padding, stop = pad_id(tokenizer), [*ends] or [tokenizer.eos_token_id]
    generated = [list(tokens) for tokens in prefixes] if prefixes is not None else [[] for _ in prompts]
    open_ones = [at for at, known in enumerate(generated) if not {*stop} & {*known} and len(known) < max_new_tokens]
    with scoring(model):
        for batch in sorted_batches([len(prompts[at]) + len(generated[at]) for at in open_ones], batch_size):
            indices = [open_ones[place] for place in batch]
            given = [[*prompts[at], *generated[at]] for at in indices]
            width = max(map(len, given))
            ids = torch.full((len(indices), width), padding, dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, tokens in enumerate(given):
                ids[row, width - len(tokens) :] = torch.tensor(tokens, dtype=torch.long)
                mask[row, width - len(tokens) :] = 1
            output = model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=max_new_tokens - min(len(generated[at]) for at in indices),
                do_sample=False,
                num_beams=1,
                repetition_penalty=1.0,  # some models set another value in their generation config
                use_cache=True,
                pad_token_id=padding,
                eos_token_id=stop if len(stop) > 1 else stop[0],
            )
            for at, tokens in zip(indices, output[:, width:].tolist(), strict=True):
                generated[at] = [*generated[at], *tokens][:max_new_tokens]
    texts: list[str] = tokenizer.batch_decode(generated, skip_special_tokens=True)
    return [text.strip() for text in texts] if strip else texts
