"""How much time does each optimisation of a training step save? Measures both variants in one process.

    python benchmarks/step_parts.py [--rounds 20]

Runs forward and backward passes of tiny-phi with random weights on two batches, with one thread. A batch has 8
sequences of 65 tokens (41 of them are supervised). Prints the minimum time of both variants and their ratio, for four
pairs: GELU in eight operations or in one kernel; default AdamW or AdamW with one kernel per tensor; two separate
batches or one joint batch; a whole step or only the matrix products of its layers.
"""

from __future__ import annotations

import argparse
import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.functional import linear

from trainables.data.authors import authors
from trainables.models.kernels import fuse_activations
from trainables.models.tiny import make_tiny, tokenizer_for
from trainables.predictions import mean_loss
from trainables.text.losses import predict
from trainables.text.tokens import Tokens, collate

ROWS, LENGTH, PROMPT = 8, 65, 24


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    unfused = make_tiny("tiny-phi", tokenizer_for("tiny-phi", authors().full)).train()
    model = fuse_activations(copy.deepcopy(unfused))
    compare("GELU", rounds, spelled_out=step(unfused), one_kernel=step(model))
    compare("batches", rounds, one_after_the_other=step(model), together=step(model, together=True))
    compare("AdamW", rounds, default=optimizer(model), one_kernel=optimizer(model, fused=True))
    compare("whole step", rounds, step=step(model), matrix_products=matrix_products(model))


def compare(title: str, rounds: int, **sides: Callable[[], object]) -> None:
    """Time both variants alternately, and print the minimum times and the ratio."""
    min_seconds = dict.fromkeys(sides, float("inf"))
    for _ in range(rounds):
        for name, side in sides.items():
            started = time.perf_counter()
            side()
            min_seconds[name] = min(min_seconds[name], time.perf_counter() - started)
    (first, slow), (second, fast) = min_seconds.items()
    print(f"{title:12} {first} {1e3 * slow:.1f} ms, {second} {1e3 * fast:.1f} ms: ratio {slow / fast:.2f}", flush=True)


def step(model: Any, *, together: bool = False) -> Callable[[], None]:
    """Return a function that runs forward and backward passes of a forget batch and a retain batch."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(2, model.config.vocab_size, (2 * ROWS, LENGTH), generator=generator).tolist()
    items = [Tokens(tuple(row), PROMPT) for row in ids]
    row_ranges = [range(2 * ROWS)] if together else [range(ROWS), range(ROWS, 2 * ROWS)]
    batches = [collate(items, rows, pad_id=0, device="cpu") for rows in row_ranges]

    def run() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        predictions = [predict(model, batch) for batch in batches]
        torch.stack([mean_loss(item.nll, item.supervised) for item in predictions]).mean().backward()

    return run


def optimizer(model: Any, *, fused: bool | None = None) -> Callable[[], object]:
    """Return a function that runs a step of AdamW on the gradients of one training step."""
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-9, weight_decay=0.0, fused=fused)
    step(model)()
    adamw.step()
    return adamw.step


def matrix_products(model: Any) -> Callable[[], None]:
    """Return a function that runs, for both batches, one forward and two backward products of each linear layer."""
    work = []
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            rows = ROWS * (LENGTH - PROMPT + 1 if name == "lm_head" else LENGTH)
            x, upstream = torch.randn(rows, layer.in_features), torch.randn(rows, layer.out_features)
            work.append((x, layer.weight.detach(), upstream))

    def run() -> None:
        for _ in range(2):
            for x, weight, upstream in work:
                linear(x, weight)
                linear(upstream, weight.T)
                linear(upstream.T, x.T)

    return run


if __name__ == "__main__":
    main()
