"""GradDrop against torchjd with the same random numbers, and its limits."""

from __future__ import annotations

import pytest
import torch
import torchjd.aggregation as torchjd

from trainables.weightings import WEIGHTINGS
from trainables.weightings.graddrop import drop_signs

GRADDROP = WEIGHTINGS["graddrop"]


def combined(g_r: torch.Tensor, g_f: torch.Tensor, *, seed: int = 0, leak: float = 0.0) -> torch.Tensor:
    assert GRADDROP.combine is not None
    parts, _ = GRADDROP.combine([g_r.clone()], [g_f.clone()], GRADDROP.init(seed), {"leak": leak})
    assert parts[0] is not None
    return parts[0]


@pytest.mark.parametrize("leak", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_with_the_same_draws_it_is_torchjds(leak: float, scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    jacobian = torch.randn(2, 500, generator=generator, dtype=torch.float64)
    jacobian[1] *= scale
    torch.manual_seed(5)
    expected = torchjd.GradDrop(leak=torch.tensor([leak, leak], dtype=torch.float64))(jacobian)
    torch.manual_seed(5)
    draws = torch.rand(500, dtype=torch.float64)
    torch.testing.assert_close(drop_signs(jacobian[0], jacobian[1], draws, leak), expected, rtol=1e-14, atol=0.0)


def test_zero_and_missing_gradients_leave_the_other_one() -> None:
    g = torch.tensor([1.0, -2.0, 0.0])
    zero = torch.zeros(3)
    assert torch.equal(combined(g, zero), g)
    assert torch.equal(combined(zero, g), g)
    assert torch.equal(combined(zero, zero), zero)
    assert GRADDROP.combine is not None
    parts, _ = GRADDROP.combine([g, None, None], [None, g, None], GRADDROP.init(0), {"leak": 0.0})
    assert parts[2] is None
    assert all(part is not None and torch.equal(part, g) for part in parts[:2])
