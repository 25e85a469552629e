"""The closed forms against torchjd, an independent library that solves for any number of gradients.

torchjd treats a Gramian of trace under 1e-4 as zero, so both gradients are first scaled by the same factor, which
changes no direction and none of the weights compared here. Its pseudo-inverses and eigenvalues lose the shorter
gradient where the lengths differ by more than the ``spread`` given for a method.
CAGrad and Nash-MTL need solvers of torchjd that are not installed: their published outputs are compared instead.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest
import torch
import torchjd.aggregation as torchjd
from scipy.optimize import nnls
from torch import Tensor
from torchjd.linalg import DualConeProjector

from tests.trainables.weightings.gramians import gramian_between, gramian_of, step, weigh
from trainables.weightings import WEIGHTINGS, Gramian, State, Weights
from trainables.weightings.graddrop import drop_signs

SAMPLES = 300


class NnlsProjector(DualConeProjector):
    """torchjd's dual-cone projection ``min v'Gv, v >= u`` by non-negative least squares, with no regularisation."""

    def __call__(self, U: Tensor, G: Tensor) -> Tensor:
        gramian = G.numpy()
        norms = np.sqrt(np.diag(gramian))
        cosine = gramian[0, 1] / norms.prod()
        units = np.array([[1.0, cosine], [0.0, math.sqrt((1.0 - cosine) * (1.0 + cosine))]])
        rows = [u + nnls(units, -units @ (norms * u))[0] / norms for u in np.atleast_2d(U.numpy())]
        return torch.from_numpy(np.array(rows)).reshape(U.shape)


def sampled_gramians(spread: float) -> Iterator[Gramian]:
    """Norms in [1e-6, 1e6] whose ratio is at most ``spread``, cosines in ]-1, 1[ and close to both ends."""
    rng = random.Random(0)
    for _ in range(SAMPLES):
        ratio = math.log10(spread) * rng.uniform(-1.0, 1.0)
        middle = rng.uniform(-6.0 + abs(ratio) / 2, 6.0 - abs(ratio) / 2)
        rho, phi = 10.0 ** (middle + ratio / 2), 10.0 ** (middle - ratio / 2)
        near_an_end = math.copysign(1.0 - 10.0 ** rng.uniform(-6.0, 0.0), rng.uniform(-1.0, 1.0))
        cosine = rng.choice([rng.uniform(-1.0, 1.0), near_an_end])
        yield gramian_of(rho, phi, cosine)


def as_tensor(gramian: Gramian) -> Tensor:
    """The Gramian of both gradients divided by the longer one's length."""
    g = torch.tensor([[gramian.rr, gramian.rf], [gramian.rf, gramian.ff]], dtype=torch.float64)
    return g / g.diagonal().max()


def relative_error(weights: Weights, expected: list[float], gramian: Gramian) -> float:
    """The difference in what the two gradients contribute to d, relative to what they contribute."""
    got = np.array([weights.retain * gramian.rho, weights.forget * gramian.phi])
    want = np.array([expected[0] * gramian.rho, expected[1] * gramian.phi])
    return float(np.linalg.norm(got - want) / np.linalg.norm(want))


@pytest.mark.parametrize(
    ("name", "oracle", "spread", "tolerance"),
    [
        ("pcgrad", torchjd.PCGradWeighting(), 1e12, 5e-15),
        ("mgda", torchjd.MGDAWeighting(epsilon=1e-15, max_iters=1000), 1e12, 5e-15),
        ("imtl-g", torchjd.IMTLGWeighting(), 1e2, 1e-8),
        ("aligned-mtl", torchjd.AlignedMTLWeighting(), 1e2, 1e-10),
        ("upgrad", torchjd.UPGradWeighting(projector=NnlsProjector()), 1e12, 5e-15),
        ("dualproj", torchjd.DualProjWeighting(projector=NnlsProjector()), 1e12, 5e-15),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_weights_equal_torchjd(name: str, oracle: Callable[[Tensor], Tensor], spread: float, tolerance: float) -> None:
    some = SAMPLES // 10 if name == "mgda" else SAMPLES  # torchjd iterates for mgda
    for gramian in islice(sampled_gramians(spread), some):
        expected = oracle(as_tensor(gramian)).tolist()
        assert relative_error(weigh(name, gramian), expected, gramian) < tolerance, gramian


@pytest.mark.parametrize("beta", [0.01, 0.5, 1.0])
def test_gradvac_equals_torchjd_over_a_whole_run(beta: float) -> None:
    oracle = torchjd.GradVacWeighting(beta=beta, eps=0.0)
    state: State = {}
    for gramian in sampled_gramians(1e6):
        weights, state = step("gradvac", gramian, state, ema_beta=beta)
        assert relative_error(weights, oracle(as_tensor(gramian)).tolist(), gramian) < 1e-9, gramian


# The outputs that torchjd's documentation gives for the gradients (-4, 1, 1) and (6, 1, 1).
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("cagrad", {"alpha": 0.5}, (0.1835, 1.2041, 1.2041)),
        ("nash-mtl", {}, (0.0542, 0.7061, 0.7061)),  # clipped there to length 1
    ],
)
def test_published_example_of_torchjd(name: str, options: dict[str, float], expected: tuple[float, ...]) -> None:
    g_r, g_f = np.array([-4.0, 1.0, 1.0]), np.array([6.0, 1.0, 1.0])
    weights = weigh(name, gramian_between(g_r, g_f), **options)
    d = weights.retain * g_r + weights.forget * g_f
    assert d / (np.linalg.norm(d) if name == "nash-mtl" else 1.0) == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize("leak", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_graddrop_with_the_same_draws_is_torchjds(leak: float, scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    jacobian = torch.randn(2, 500, generator=generator, dtype=torch.float64)
    jacobian[1] *= scale
    torch.manual_seed(5)
    expected = torchjd.GradDrop(leak=torch.tensor([leak, leak], dtype=torch.float64))(jacobian)
    torch.manual_seed(5)
    draws = torch.rand(500, dtype=torch.float64)
    torch.testing.assert_close(drop_signs(jacobian[0], jacobian[1], draws, leak), expected, rtol=1e-14, atol=0.0)


def test_graddrop_leaves_a_gradient_beside_which_the_other_is_zero_or_missing() -> None:
    g, zero, graddrop = torch.tensor([1.0, -2.0, 0.0]), torch.zeros(3), WEIGHTINGS["graddrop"]
    assert graddrop.combine is not None
    retain, forget = [g, zero, g, None, zero, None], [zero, g, None, g, zero, None]
    d, _ = graddrop.combine(retain, forget, graddrop.init(0), {"leak": 0.0})
    assert [None if part is None else part.tolist() for part in d] == [*[g.tolist()] * 4, zero.tolist(), None]
