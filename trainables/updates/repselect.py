"""RepSelect: a forget gradient without the directions that the forget set shares with other data, computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from trainables.updates.base import Settings, Update

if TYPE_CHECKING:
    from torch import Tensor

RANK = 8
"""The rank of the adversarial adapter, as in the authors' code (the default of PEFT)."""


def fixed_gradient(
    matrices: Sequence[Tensor],
    learn: Sequence[Callable[[], Tensor]],
    forget: Sequence[Callable[[], Tensor]],
    settings: Settings,
) -> list[Tensor]:
    """Return the forget gradient of all steps: one tensor per matrix of the decoder blocks, without their attention.

    1. An adversarial adapter learns the forget set. Every matrix ``W`` of shape ``(m, n)`` becomes ``W + B A``, where
       ``A`` is a uniform draw from ``(-1/sqrt(n), 1/sqrt(n))`` of rank 8, and ``B`` starts at 0. One step of gradient
       descent per batch, with the rate ``repselect_adapter_lr``, minimises the cross-entropy.
    2. With the adapter, the mean over the batches of the gradient ``G`` of the forget objective is computed.
    3. Without the adapter, the top singular directions of every ``G`` are damped (:func:`damped`).

    The weights are the same bits afterwards. With the optimizer SGD, the weighting ``ga`` and the objective ``ascent``,
    an epoch moves the weights like an epoch of the authors' method with the same learning rate. All other weights get
    no forget gradient. The authors' code (github.com/filyp/RepSelect, MIT) is ``src/trainer/unlearn/
    repselect_simple.py``.
    """
    import torch

    draws = torch.Generator().manual_seed(settings["seed"])
    originals = [matrix.detach().clone() for matrix in matrices]
    down, up = [], []
    for matrix in matrices:
        rows, columns = matrix.shape
        rank = min(RANK, rows, columns)
        uniform = torch.rand(rank, columns, generator=draws) * 2.0 - 1.0
        down.append((uniform / columns**0.5).to(matrix))
        up.append(torch.zeros(rows, rank).to(matrix))

    def move() -> None:
        for matrix, original, a, b in zip(matrices, originals, down, up, strict=True):
            matrix.copy_(torch.addmm(original, b, a))

    for batch in learn if settings["repselect_adapter_lr"] else ():
        batch()
        with torch.no_grad():
            for matrix, a, b in zip(matrices, down, up, strict=True):
                if matrix.grad is None:  # an expert without tokens
                    continue
                step_a, step_b = b.T @ matrix.grad, matrix.grad @ a.T
                a.sub_(step_a, alpha=settings["repselect_adapter_lr"])
                b.sub_(step_b, alpha=settings["repselect_adapter_lr"])
                matrix.grad = None
            move()
    for batch in forget:
        batch()
    with torch.no_grad():
        for matrix, original in zip(matrices, originals, strict=True):
            matrix.copy_(original)
        gradients = []
        for matrix in matrices:
            gradient = torch.zeros_like(matrix) if matrix.grad is None else matrix.grad / len(forget)
            gradients.append(damped(gradient, settings["repselect_share"]))
            matrix.grad = None
    return gradients


def damped(gradient: Tensor, share: float) -> Tensor:
    """Return the matrix ``G`` with damped top singular values: ``s_i`` becomes ``s_k^2/s_i`` for ``i <= k``.

    The other singular values do not change, and ``k`` is ``share`` times the smaller dimension. This equals
    ``(I - U D U^T) G (I - V D V^T)`` in the authors' code, with ``D = I - s_k S^-1`` and the top singular directions
    ``U S V^T``. Here, the directions are exact: eigenvectors of ``G G^T`` in float64. The authors' algorithm is
    randomised.
    """
    import torch

    matrix = gradient.double()
    if matrix.shape[0] > matrix.shape[1]:
        return damped(gradient.T, share).T
    count = max(1, round(share * len(matrix)))
    squares, directions = torch.linalg.eigh(matrix @ matrix.T)  # ascending
    top, left = squares[-count:].clamp_min(torch.finfo(squares.dtype).tiny), directions[:, -count:]
    removed = left @ ((1.0 - top[0] / top).unsqueeze(1) * (left.T @ matrix))
    result: Tensor = (matrix - removed).to(gradient.dtype)
    return result


UPDATE = Update(
    name="repselect",
    formula="one forget gradient for all steps: the mean over the forget set while an adversarial adapter is active; "
    "the top singular values s_1 to s_k of every matrix become s_k^2/s_i",
    citation="Sondej et al., RepSelect: Robust LLM Unlearning via Representation Selectivity, 2026 (arXiv:2606.17168)",
    fixed_gradient=fixed_gradient,
)
