"""The 4-bit codes of weights in the data type NF4 (Dettmers et al., QLoRA, NeurIPS 2023, arXiv:2305.14314)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 64
"""The number of consecutive weights that share a scale."""

CODES = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The sixteen values of the data type, from appendix E of the paper."""


def blocks_of(weights: Tensor) -> Tensor:
    """Return the flattened weights in blocks: ``(n, 64)``. The last block is filled up with zeros."""
    from torch.nn.functional import pad

    flat = weights.detach().flatten()
    missing = -len(flat) % BLOCK
    return (pad(flat, (0, missing)) if missing else flat).view(-1, BLOCK)


def nf4_codes(blocks: Tensor) -> Tensor:
    """Return the index in ``CODES`` for each weight: int32 ``(n, 64)`` for blocks ``(n, 64)``.

    Each weight is divided by the largest absolute value in its block and then rounded to the nearest of the sixteen
    values. A block of zeros has the code of 0.
    """
    import torch

    blocks = blocks.float()
    largest = blocks.abs().amax(dim=1, keepdim=True)
    scaled = blocks * torch.where(largest > 0.0, 1.0 / largest, 0.0)
    midpoints = torch.tensor([(low + high) / 2.0 for low, high in pairwise(CODES)], device=blocks.device)
    return torch.bucketize(scaled, midpoints, out_int32=True)
