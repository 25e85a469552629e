"""Checks of the properties that every weighting must have, for tests of your own weightings:

check_weighting(MINE, symmetric=True)
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from search_spaces.fields import defaults
from trainables.testing.options import check_options, option_values
from trainables.weightings import Gramian, Losses, Needs, State, Weighting, Weights

_NORMS = (0.0, 1e-150, 1e-6, 0.3, 1.0, 1.7, 1e6, 1e150)
_COSINES = (-1.0, 1e-12 - 1.0, -0.9, 0.0, 0.3, 0.999, 1.0 - 1e-12, 1.0 - 1e-16, 1.0)
_LOSSES = (0.0, 1e-310, -1e-30, 1.0, -2.0, 100.0, 1e30)

Step = tuple[Losses, Gramian]


def check_weighting(
    weighting: Weighting, *, non_negative: bool = True, scale_free: bool = True, symmetric: bool = False
) -> None:
    """Run all checks below that apply to a weighting with these needs.

    Args:
        non_negative: check that weights are never negative.
        scale_free: if the weighting uses the Gramian, check that scaling both gradients by the same factor does not
            change the direction of the step.
        symmetric: if the weighting uses the Gramian, check that exchanging the tasks exchanges the weights.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    check_record(weighting)
    if weighting.needs is Needs.GRADIENTS:
        check_combination(weighting)
        return
    check_needs(weighting)
    check_weights(weighting, non_negative=non_negative)
    check_purity(weighting)
    check_state(weighting)
    check_nan(weighting)
    if weighting.needs is Needs.GRAMIAN:
        if scale_free:
            check_scale(weighting)
        if symmetric:
            check_symmetry(weighting)


def check_record(weighting: Weighting) -> None:
    """Check that the record can be shown in a list, and that its options are valid."""
    assert 0 < len(weighting.formula) < 100, f"the formula must have 1 to 99 characters, has {len(weighting.formula)}"
    assert "\n" not in weighting.formula + weighting.citation, "formula and citation must be one line each"
    assert any(part in weighting.citation for part in ("19", "20")), "the citation names no year"
    check_options(weighting.options)


def check_needs(weighting: Weighting) -> None:
    """Check that ``weigh`` without a Gramian raises ValueError if and only if the weighting declares to need one."""
    arguments = (Losses(1.0, -1.0), None, weighting.init(7), defaults(weighting.options))
    if weighting.needs is not Needs.GRAMIAN:
        weights, _ = weighting.weigh(*arguments)
        assert weights.retain + weights.forget > 0, f"losses of 1 and -1 have no weight: {weights}"
        return
    assert _refuses(weighting, *arguments), (
        "the weighting declares that it needs the Gramian, so 'weigh' without a Gramian must raise ValueError"
    )


def check_weights(weighting: Weighting, *, non_negative: bool) -> None:
    """Check that weights are finite for any scale, angle, history and options, and for zero and parallel gradients."""
    for options in option_values(weighting.options):
        for taken in _histories(60):
            for weights in _run(weighting, taken, options=options):
                found = f"{weights} after {taken} with {options}"
                assert math.isfinite(weights.retain), f"the weights must be finite: {found}"
                assert math.isfinite(weights.forget), f"the weights must be finite: {found}"
                if non_negative:
                    assert min(weights.retain, weights.forget) >= 0.0, f"no weight may be negative: {found}"


def check_purity(weighting: Weighting) -> None:
    """Check that equal arguments give equal results, and that the arguments are not changed."""
    options = defaults(weighting.options)
    for taken in _histories(30):
        state = weighting.init(7)
        for losses, gramian in taken:
            given = dict(state), dict(options)
            first = weighting.weigh(losses, gramian, *given)
            assert given == (state, options), "the state or the options were changed: return new ones"
            assert weighting.weigh(losses, gramian, *given) == first, f"not a function of {losses}, {gramian}"
            state = first[1]


def check_state(weighting: Weighting) -> None:
    """Check that a run that is resumed from its state, stored as JSON, continues as if it had not been interrupted."""
    histories = list(_histories(60))
    for before, after in zip(histories[::2], histories[1::2], strict=True):
        state = weighting.init(7)
        for losses, gramian in before:
            _, state = weighting.weigh(losses, gramian, state, defaults(weighting.options))
        restored = json.loads(json.dumps(dict(state), allow_nan=False))
        whole = _run(weighting, [*before, *after])
        assert _run(weighting, after, restored) == whole[len(before) :], f"the state {restored} is incomplete"


def check_nan(weighting: Weighting) -> None:
    """Check that NaN arguments give a NaN, if the method uses its arguments."""

    def weigh(losses: Losses, gramian: Gramian) -> tuple[Weights, State]:
        return weighting.weigh(losses, gramian, weighting.init(7), defaults(weighting.options))

    nan = math.nan
    weights, state = weigh(Losses(nan, nan), Gramian(nan, nan, nan))
    looks = weigh(Losses(1.0, -2.0), _gramian(0.3, 1.7, 0.3)) != weigh(Losses(3.0, -0.5), _gramian(2.0, 0.1, -0.9))
    kept = any(math.isnan(value) for value in (weights.retain, weights.forget, *state.values()))
    assert kept or not looks, f"a NaN became {weights}"


def check_scale(weighting: Weighting) -> None:
    """Check that scaling both gradients by the same factor does not change the direction."""
    for cosine in (-0.999, -0.6, 0.0, 0.3, 0.999):
        small = _gramian(0.3, 1.7, cosine)
        for scale in (2.0**-300, 2.0**-20, 2.0**20, 2.0**300):
            large = _gramian(0.3 * scale, 1.7 * scale, cosine)
            for before, after in zip(
                _run(weighting, [(Losses(1.0, -2.0), small)] * 3),
                _run(weighting, [(Losses(1.0, -2.0), large)] * 3),
                strict=True,
            ):
                same = _close(_direction(before, small), _direction(after, large), 1e-12)
                assert same, f"scaling both gradients by {scale:g} at a cosine of {cosine} changes the direction"


def check_symmetry(weighting: Weighting) -> None:
    """Check that exchanging the tasks exchanges the weights, in a step with equal and a step with unequal losses."""
    draw = random.Random("symmetry")
    for _ in range(30):
        rho, phi = 10.0 ** draw.uniform(-6.0, 6.0), 10.0 ** draw.uniform(-6.0, 6.0)
        cosine, one, other = draw.uniform(-0.999, 0.999), draw.uniform(0.1, 10.0), draw.uniform(0.1, 10.0)
        straight = [(losses, _gramian(rho, phi, cosine)) for losses in (Losses(1.0, 1.0), Losses(one, other))]
        swapped = [(losses, _gramian(phi, rho, cosine)) for losses in (Losses(1.0, 1.0), Losses(other, one))]
        for mine, theirs in zip(_run(weighting, straight), _run(weighting, swapped), strict=True):
            same = _close((mine.retain, mine.forget), (theirs.forget, theirs.retain), 1e-9)
            assert same, f"exchanging the tasks changes the weights from {mine} to {theirs}"


def check_combination(weighting: Weighting) -> None:
    """Check that ``combine`` exists and is finite, pure and resumable, and that ``weigh`` raises ValueError."""
    import torch

    combine, options = weighting.combine, defaults(weighting.options)
    assert combine is not None, "the weighting declares that it acts on the gradients, but it has no 'combine'"
    refused = _refuses(weighting, Losses(1.0, -1.0), None, weighting.init(7), options)
    assert refused, "a weighting that acts on the gradients has no weights, so 'weigh' must raise ValueError"

    def gradients(number: int) -> list[torch.Tensor | None]:
        generator = torch.Generator().manual_seed(number)
        return [torch.randn(3, 4, generator=generator), torch.randn(5, generator=generator).zero_()]

    state = weighting.init(7)
    for step in range(3):
        retain, forget = [*gradients(step), None, None], [*gradients(step + 10), torch.ones(2), None]
        again = json.loads(json.dumps(dict(state), allow_nan=False))
        direction, new = combine(copy.deepcopy(retain), copy.deepcopy(forget), state, options)
        assert direction[-1] is None, "parameters without gradients have no direction"
        for part, shape in zip(direction[:-1], ((3, 4), (5,), (2,)), strict=True):
            assert part is not None, "parameters with a gradient have a direction"
            assert tuple(part.shape) == shape, "the direction must have the shapes of the parameters"
            assert bool(part.isfinite().all()), "the direction must be finite"
        repeated, same = combine(copy.deepcopy(retain), copy.deepcopy(forget), again, options)
        assert dict(same) == dict(new), "the new state differs after a round trip of the state through JSON"
        for one, other in zip(direction[:-1], repeated[:-1], strict=True):
            repeats = one is not None and other is not None and torch.equal(one, other)
            assert repeats, "equal arguments give different directions"
        state = new


# Helpers -------------------------------------------------------------------------------------------------------------


def _histories(number: int) -> Iterator[list[Step]]:
    """Yield ``number`` runs of one to four steps. About half of the numbers are extreme values. Reproducible."""
    draw = random.Random("histories")

    def one(extremes: Sequence[float], usual: float) -> float:
        return draw.choice(extremes) if draw.random() < 0.5 else usual

    for _ in range(number):
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


def _refuses(weighting: Weighting, *arguments: Any) -> bool:
    try:
        weighting.weigh(*arguments)
    except ValueError:
        return True
    return False


def _gramian(rho: float, phi: float, cosine: float) -> Gramian:
    return Gramian(rho * rho, cosine * rho * phi, phi * phi)


def _run(
    weighting: Weighting,
    taken: Sequence[Step],
    state: State | None = None,
    *,
    options: Mapping[str, float] | None = None,
) -> list[Weights]:
    state = weighting.init(7) if state is None else state
    options = defaults(weighting.options) if options is None else options
    weights = []
    for losses, gramian in taken:
        step, state = weighting.weigh(losses, gramian, state, options)
        weights.append(step)
    return weights


def _direction(weights: Weights, gramian: Gramian) -> tuple[float, float]:
    """Return the lengths of both gradients' parts in d, as a unit vector, which does not change if d is rescaled."""
    retain, forget = weights.retain * gramian.rho, weights.forget * gramian.phi
    length = math.hypot(retain, forget)
    return retain / length, forget / length


def _close(one: tuple[float, float], other: tuple[float, float], tolerance: float) -> bool:
    return all(math.isclose(a, b, rel_tol=tolerance) for a, b in zip(one, other, strict=True))
