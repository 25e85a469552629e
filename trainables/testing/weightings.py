"""Check your own weighting in a test: ``check_weighting(MINE, symmetric=True)``."""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from search_spaces.fields import defaults
from trainables.testing.options import check_options, option_values
from trainables.weightings import Gramian, Losses, Needs, State, Weighting, Weights

_NORMS = (0.0, 1e-150, 1e-6, 0.3, 1.0, 1.7, 1e6, 1e150)
_COSINES = (-1.0, 1e-12 - 1.0, -0.9, 0.0, 0.3, 0.999, 1.0 - 1e-12, 1.0 - 1e-16, 1.0)
_LOSSES = (0.0, 1e-310, -1e-30, 1.0, -2.0, 100.0, 1e30)
_HISTORIES = 60

Step = tuple[Losses, Gramian]


def check_weighting(
    weighting: Weighting, *, non_negative: bool = True, scale_free: bool = True, symmetric: bool = False
) -> None:
    """Check that the record of a weighting is consistent, and check the results of its function.

    ``weigh`` must return finite weights, also for extreme, zero and parallel gradients. ``weigh`` must not change its
    arguments. A state that was restored from JSON must give equal results. NaN arguments must give a NaN. ``weigh``
    must raise ValueError without a Gramian that it needs. For a weighting that combines the gradients themselves,
    ``combine`` is checked instead.

    Args:
        non_negative: whether a negative weight is an error.
        scale_free: whether scaling both gradients by one factor must keep the direction.
        symmetric: whether swapping the two tasks must swap the weights.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    assert 0 < len(weighting.formula) < 100, f"the formula must have 1 to 99 characters, has {len(weighting.formula)}"
    assert "\n" not in weighting.formula + weighting.citation, "formula and citation must be one line each"
    assert any(part in weighting.citation for part in ("19", "20")), "the citation names no year"
    check_options(weighting.options)
    if weighting.needs is Needs.GRADIENTS:
        _check_combination(weighting)
        return
    if weighting.needs is Needs.GRAMIAN:
        assert _refuses(weighting), (
            "the weighting declares that it needs the Gramian, so 'weigh' without a Gramian must raise ValueError"
        )
    else:
        weights, _ = _weigh(weighting, Losses(1.0, -1.0), None)
        assert weights.retain + weights.forget > 0, (
            f"for losses of 1 and -1, at least one weight must be positive: {weights}"
        )
    for options in option_values(weighting.options):
        for history in _histories():
            _check_history(weighting, history, options, non_negative=non_negative)
    _check_nan(weighting)
    if weighting.needs is Needs.GRAMIAN:
        if scale_free:
            _check_scale(weighting)
        if symmetric:
            _check_symmetry(weighting)


def _check_history(
    weighting: Weighting, history: Sequence[Step], options: dict[str, float], *, non_negative: bool
) -> None:
    """Check every step of one run twice: with the state, and with the state restored from JSON."""
    state = weighting.init(7)
    for losses, gramian in history:
        restored, given = json.loads(json.dumps(dict(state), allow_nan=False)), (dict(state), dict(options))
        found = weights, new = weighting.weigh(losses, gramian, *given)
        assert given == (state, options), "the weighting changes its state or options; it must return new objects"
        again = weighting.weigh(losses, gramian, restored, options)
        assert again == found, f"the result for {losses}, {gramian} changes if the state is restored from JSON"
        shown = f"{weights} after the steps {history} with the options {options}"
        assert math.isfinite(weights.retain), f"the weights must be finite: {shown}"
        assert math.isfinite(weights.forget), f"the weights must be finite: {shown}"
        assert not non_negative or min(weights.retain, weights.forget) >= 0.0, f"no weight may be negative: {shown}"
        state = new


def _check_nan(weighting: Weighting) -> None:
    nan = math.nan
    weights, state = _weigh(weighting, Losses(nan, nan), Gramian(nan, nan, nan))
    one = _weigh(weighting, Losses(1.0, -2.0), _gramian(0.3, 1.7, 0.3))
    uses_arguments = one != _weigh(weighting, Losses(3.0, -0.5), _gramian(2.0, 0.1, -0.9))
    kept = any(math.isnan(value) for value in (weights.retain, weights.forget, *state.values()))
    assert kept or not uses_arguments, f"NaN arguments must give a NaN weight or state, got {weights}"


def _check_scale(weighting: Weighting) -> None:
    def directions(rho: float, phi: float, cosine: float) -> Iterator[float]:
        for weights in _run(weighting, [(Losses(1.0, -2.0), _gramian(rho, phi, cosine))] * 3):
            yield math.atan2(weights.forget * phi, weights.retain * rho)

    for cosine in (-0.999, -0.6, 0.0, 0.3, 0.999):
        for scale in (2.0**-300, 2.0**-20, 2.0**20, 2.0**300):
            small, large = directions(0.3, 1.7, cosine), directions(0.3 * scale, 1.7 * scale, cosine)
            same = all(math.isclose(*angles, rel_tol=1e-12) for angles in zip(small, large, strict=True))
            assert same, f"scaling both gradients by {scale:g} at a cosine of {cosine} changes the direction"


def _check_symmetry(weighting: Weighting) -> None:
    """Check that swapping the two tasks swaps the weights, for equal losses and for unequal losses."""
    draw = random.Random("symmetry")
    for _ in range(30):
        rho, phi = 10.0 ** draw.uniform(-6.0, 6.0), 10.0 ** draw.uniform(-6.0, 6.0)
        cosine, one, other = draw.uniform(-0.999, 0.999), draw.uniform(0.1, 10.0), draw.uniform(0.1, 10.0)
        straight = [(losses, _gramian(rho, phi, cosine)) for losses in (Losses(1.0, 1.0), Losses(one, other))]
        swapped = [(losses, _gramian(phi, rho, cosine)) for losses in (Losses(1.0, 1.0), Losses(other, one))]
        for mine, theirs in zip(_run(weighting, straight), _run(weighting, swapped), strict=True):
            same = math.isclose(mine.retain, theirs.forget, rel_tol=1e-9)
            same = same and math.isclose(mine.forget, theirs.retain, rel_tol=1e-9)
            assert same, f"exchanging the tasks changes the weights from {mine} to {theirs}"


def _check_combination(weighting: Weighting) -> None:
    import torch

    combine, options = weighting.combine, defaults(weighting.options)
    assert combine is not None, "the weighting declares that it acts on the gradients, but it has no 'combine'"
    assert _refuses(weighting), "a weighting that acts on the gradients has no weights: 'weigh' must raise ValueError"

    def gradients(number: int) -> list[torch.Tensor | None]:
        generator = torch.Generator().manual_seed(number)
        return [torch.randn(3, 4, generator=generator), torch.randn(5, generator=generator).zero_()]

    state = weighting.init(7)
    for step in range(3):
        retain, forget = [*gradients(step), None, None], [*gradients(step + 10), torch.ones(2), None]
        again = json.loads(json.dumps(dict(state), allow_nan=False))
        direction, new = combine(copy.deepcopy(retain), copy.deepcopy(forget), state, options)
        assert direction[-1] is None, "the update direction must be None for a parameter without gradients"
        for part, shape in zip(direction[:-1], ((3, 4), (5,), (2,)), strict=True):
            assert part is not None, "the update direction must not be None for a parameter with a gradient"
            assert tuple(part.shape) == shape, "the update direction must have the parameters' shapes"
            assert bool(part.isfinite().all()), "the update direction must be finite"
        repeated, same = combine(copy.deepcopy(retain), copy.deepcopy(forget), again, options)
        assert dict(same) == dict(new), "the new state differs after a round trip of the state through JSON"
        for one, other in zip(direction[:-1], repeated[:-1], strict=True):
            repeats = one is not None and other is not None and torch.equal(one, other)
            assert repeats, "equal arguments give different directions"
        state = new


def _histories() -> Iterator[list[Step]]:
    """Yield runs of one to four steps. About half of the numbers are extreme values. Each call yields the same runs."""
    draw = random.Random("histories")

    def one(extremes: Sequence[float], usual: float) -> float:
        return draw.choice(extremes) if draw.random() < 0.5 else usual

    for _ in range(_HISTORIES):
        yield [
            (
                Losses(one(_LOSSES, draw.uniform(-100.0, 100.0)), one(_LOSSES, draw.uniform(-100.0, 100.0))),
                _gramian(
                    one(_NORMS, 10.0 ** draw.uniform(-6.0, 6.0)),
                    one(_NORMS, 10.0 ** draw.uniform(-6.0, 6.0)),
                    one(_COSINES, draw.uniform(-1.0, 1.0)),
                ),
            )
            for _ in range(draw.randint(1, 4))
        ]


def _refuses(weighting: Weighting) -> bool:
    try:
        _weigh(weighting, Losses(1.0, -1.0), None)
    except ValueError:
        return True
    return False


def _gramian(rho: float, phi: float, cosine: float) -> Gramian:
    return Gramian(rho * rho, cosine * rho * phi, phi * phi)


def _weigh(
    weighting: Weighting, losses: Losses, gramian: Gramian | None, state: State | None = None
) -> tuple[Weights, State]:
    state = weighting.init(7) if state is None else state
    return weighting.weigh(losses, gramian, state, defaults(weighting.options))


def _run(weighting: Weighting, history: Sequence[Step]) -> Iterator[Weights]:
    state: Any = None
    for losses, gramian in history:
        weights, state = _weigh(weighting, losses, gramian, state)
        yield weights
