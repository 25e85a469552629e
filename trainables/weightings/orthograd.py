"""OrthoGrad: the forget gradient, orthogonal to the gradient of every example of the retain batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.common.fields import LINEAR, Field
from trainables.weightings.base import Gradient, Needs, Options, State, Weighting

if TYPE_CHECKING:
    from torch import Tensor

_RANK_TOLERANCE = 1e-12
"""The eigenvalues of the Gramian of the retain gradients that count as zero, relative to the largest."""


def combine(retain: Gradient, forget: Gradient, state: State, options: Options) -> tuple[Gradient, State]:
    """Return the direction ``alpha g_r + (1 - alpha) P g_f`` of the step (one tensor per parameter), and the state.

    ``P`` projects a parameter's tensor onto the orthogonal complement of the span of the retain examples' gradients of
    this tensor. The tensors in ``retain`` have the shape ``(B, ...)``, with one row per example; the sum of the rows is
    ``g_r``. With ``alpha = 0``, the retain loss is not minimised. If one gradient of a parameter is None, it counts as
    zero.

    A step needs one backward pass per retain example and memory for ``B`` gradients; the projection computes the
    ``B x B`` Gramian of each tensor in float64. Public code projects by a QR decomposition, which is the same for
    linearly independent gradients; this function was written from the paper.
    """
    alpha = options["alpha"]
    direction: Gradient = []
    for rows, g_f in zip(retain, forget, strict=True):
        if rows is None:
            direction.append(None if g_f is None else (1.0 - alpha) * g_f)
        elif g_f is None:
            direction.append(alpha * rows.sum(dim=0))
        else:
            direction.append(alpha * rows.sum(dim=0) + (1.0 - alpha) * _orthogonal_part(g_f, rows))
    return direction, state


def _orthogonal_part(g_f: Tensor, rows: Tensor) -> Tensor:
    """Return ``g_f`` without its projection onto the span of the rows."""
    import torch

    basis = rows.flatten(1).double()
    products = basis @ g_f.flatten().double()
    inverse = torch.linalg.pinv(basis @ basis.T, rtol=_RANK_TOLERANCE, hermitian=True)
    projection: Tensor = (inverse @ products) @ basis
    return g_f - projection.to(g_f.dtype).reshape(g_f.shape)


WEIGHTING = Weighting(
    name="orthograd",
    formula="alpha g_r + (1 - alpha) P g_f, where P removes the span of the retain examples' gradients",
    needs=Needs.RETAIN_EXAMPLES,
    combine=combine,
    citation="Shamsian et al., Go Beyond Your Means: Unlearning with Per-Sample Gradient Orthogonalization, 2025 "
    "(arXiv:2503.02312)",
    options=(
        Field(
            "alpha", 0.5, "weight of the retain gradient; 0 uses only the forget gradient", low=0.0, high=1.0
        ).searched(0.05, 0.95, LINEAR, "from hardly any retain gradient to hardly any forget gradient"),
    ),
)
