"""Inner products of gradients have float64 accuracy, and the combined gradient is the weighted sum."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from trainables import gradients
from trainables.device import flush_denormals
from trainables.gradients import Gradient, combine_, gramian, norm, take_gradient
from trainables.weightings import Weights

SHAPES = ((3, 5), (7,), (2, 3, 4), (1,))


def _gradient(seed: int, missing: tuple[int, ...] = ()) -> Gradient:
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(shape, generator=generator) for shape in SHAPES]
    return [None if index in missing else part for index, part in enumerate(parts)]


def _flat(gradient: Gradient) -> Tensor:
    """Return the gradient as one float64 vector, with zeros for missing parts."""
    parts = [torch.zeros(shape) if part is None else part for part, shape in zip(gradient, SHAPES, strict=True)]
    return torch.cat([part.double().flatten() for part in parts])


MISSING = [((), ()), ((), (0, 3)), ((0, 1), (1, 2)), ((0, 1, 2, 3), ())]


@pytest.mark.parametrize(("missing_r", "missing_f"), MISSING)
def test_the_gramian_is_that_of_the_concatenated_gradients(
    missing_r: tuple[int, ...], missing_f: tuple[int, ...]
) -> None:
    g_r, g_f = _gradient(0, missing_r), _gradient(1, missing_f)
    found = gramian(g_r, g_f)
    r, f = _flat(g_r), _flat(g_f)
    assert (found.rr, found.rf, found.ff) == pytest.approx((float(r @ r), float(r @ f), float(f @ f)), rel=1e-14)
    assert norm(g_r) == pytest.approx(float(r.norm()), rel=1e-14)


@pytest.mark.parametrize("size", [4, 20])  # most tensors are split; some share a chunk
def test_chunks_of_any_size_give_the_same_sums(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    g_r, g_f = _gradient(0), _gradient(1)
    whole = gramian(g_r, g_f)
    monkeypatch.setattr(gradients, "_CPU_CHUNK", size)
    parts = gramian(g_r, g_f)
    assert (parts.rr, parts.rf, parts.ff) == pytest.approx((whole.rr, whole.rf, whole.ff), rel=1e-14)


def test_sums_over_many_elements_and_of_bfloat16_keep_float64_accuracy() -> None:
    values = torch.cat([torch.full((1000,), 30.0), torch.full((3_000_000,), 0.01)])
    exact = 1000 * 900.0 + 3_000_000 * float(torch.tensor(0.01)) ** 2
    assert gramian([values], [values]).rr == pytest.approx(exact, rel=1e-9)
    assert norm([values]) == pytest.approx(math.sqrt(exact), rel=1e-9)
    part = torch.randn(1000, generator=torch.Generator().manual_seed(0)).bfloat16()
    assert gramian([part], [part]).rr == pytest.approx(float((part.double() ** 2).sum()), rel=1e-12)


def test_taking_a_gradient_leaves_none_and_copies_nothing_and_the_sum_reuses_its_memory() -> None:
    """At most two gradient buffers exist, even while they are combined."""
    parameters = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2))]
    (parameters[0].sum() * 2).backward()
    given = parameters[0].grad
    taken = take_gradient(parameters)
    assert taken[0] is given
    assert taken[1] is None
    assert [parameter.grad for parameter in parameters] == [None, None]
    combine_(parameters, [torch.ones(3), None], taken, Weights(1.0, 1.0))
    assert parameters[0].grad is not None
    assert given is not None
    assert parameters[0].grad.data_ptr() == given.data_ptr()


@pytest.mark.parametrize(("missing_r", "missing_f"), MISSING)
@pytest.mark.parametrize("weights", [(0.25, 1.5), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0), (3.0, -2.0)])
def test_the_combination_is_the_weighted_sum(
    missing_r: tuple[int, ...], missing_f: tuple[int, ...], weights: tuple[float, float]
) -> None:
    g_r, g_f = _gradient(0, missing_r), _gradient(1, missing_f)
    expected = weights[0] * _flat(g_r) + weights[1] * _flat(g_f)
    parameters = [nn.Parameter(torch.zeros(shape)) for shape in SHAPES]
    combine_(parameters, g_r, g_f, Weights(*weights))
    torch.testing.assert_close(_flat([parameter.grad for parameter in parameters]), expected, rtol=1e-6, atol=1e-6)
    for index, parameter in enumerate(parameters):
        kept = (weights[0] != 0 and index not in missing_r) or (weights[1] != 0 and index not in missing_f)
        assert (parameter.grad is not None) == kept


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_weight_of_zero_drops_a_gradient_that_is_not_finite(bad: float) -> None:
    for weights in (Weights(2.0, 0.0), Weights(0.0, 2.0)):
        parameters = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))]
        good: Gradient = [torch.tensor([1.0, 2.0]), None]
        broken: Gradient = [torch.tensor([bad, 1.0]), torch.tensor([bad, bad])]
        combine_(parameters, *((good, broken) if weights.retain else (broken, good)), weights)
        assert parameters[0].grad is not None
        assert (parameters[0].grad.tolist(), parameters[1].grad) == ([2.0, 4.0], None)


def _product() -> float:
    return float((torch.full((8,), 1e-30) * 1e-10).sum())


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this CPU cannot flush denormal numbers to 0")
def test_denormal_numbers_are_0_inside_and_only_there() -> None:
    assert _product() > 0
    with flush_denormals():
        assert _product() == 0
    assert _product() > 0
    with pytest.raises(KeyError), flush_denormals():
        raise KeyError
    assert _product() > 0
