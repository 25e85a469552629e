"""Check your own weighting in a test: ``check_weighting(MINE)``."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from search_spaces.common.fields import defaults
from trainables.testing.options import check_options, option_values
from trainables.weightings import NO_GRAMIAN, Gramian, Losses, Needs, State, Weighting

_NORMS = (0.0, 1e-150, 1e-6, 0.3, 1.0, 1.7, 1e6, 1e150)
_COSINES = (-1.0, 1e-12 - 1.0, -0.9, 0.0, 0.3, 0.999, 1.0 - 1e-12, 1.0 - 1e-16, 1.0)
_LOSSES = (0.0, 1e-310, -1e-30, 1.0, -2.0, 100.0, 1e30)
_HISTORIES = 60


def check_weighting(weighting: Weighting, *, non_negative: bool = True) -> None:
    """Check that the fields of a weighting are consistent, and that its function returns valid weights.

    ``weigh`` must return finite weights, also for extreme, zero and parallel gradients. It must not change its state or
    options. If the state is saved and loaded, the results must be equal. For a weighting that combines the gradients
    itself, ``combine`` is checked instead of ``weigh``.

    Args:
        non_negative: whether a negative weight is an error.

    Raises:
        AssertionError: a check failed; the message says which.
    """
    length = len(weighting.formula)
    assert 0 < length < 200, f"the formula must have 1 to 199 characters, but has {length}"
    assert "\n" not in weighting.formula + weighting.citation, "formula and citation must be one line each"
    check_options(weighting.options)
    if weighting.needs.combines:
        _check_combination(weighting)
        return
    assert weighting.weigh is not None
    for options in option_values(weighting.options):
        for history in _histories():
            state = weighting.init(7)
            for losses, drawn_gramian in history:
                gramian = drawn_gramian if weighting.needs is Needs.GRAMIAN else NO_GRAMIAN
                weights, state = _call_twice(weighting.weigh, losses, gramian, state, options)
                context = f"{weights} after the steps {history} with the options {options}"
                assert math.isfinite(weights.retain), f"the weights must be finite: {context}"
                assert math.isfinite(weights.forget), f"the weights must be finite: {context}"
                min_weight = min(weights.retain, weights.forget)
                assert min_weight >= 0.0 or not non_negative, f"no weight may be negative: {context}"


def _call_twice(function: Callable[..., Any], first: Any, second: Any, state: State, options: dict[str, float]) -> Any:
    """Return the result of a weighting's function. Check that the result is equal with a copy of the state."""
    copy = _plain(state)
    saved = json.dumps(copy, allow_nan=False)
    options_copy = dict(options)
    result = function(first, second, state, options_copy)
    is_unchanged = _plain(state) == copy and options_copy == options
    assert is_unchanged, "the weighting changes its state or options; it must return new objects"
    repeated = function(first, second, _restored(json.loads(saved)), options)
    # repr, because NaN equals NaN
    assert repr(_plain(repeated)) == repr(_plain(result)), "the result changes if the state is saved and loaded"
    return result


def _plain(value: Any) -> Any:
    """Return a copy in which tensors are lists of numbers."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _restored(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state in which the lists of numbers, which were gradients, are tensors again."""
    import torch

    def tensors(value: list[Any]) -> list[Any]:
        return [None if item is None else torch.tensor(item) for item in value]

    return {key: tensors(value) if isinstance(value, list) else value for key, value in state.items()}


def _check_combination(weighting: Weighting) -> None:
    """Check ``combine`` in three steps.

    The first parameter has both gradients, the second has only one, and the third has none.
    """
    import torch

    combine = weighting.combine
    assert combine is not None

    def combined(
        retain: list[float], forget: list[float], state: State, options: dict[str, float]
    ) -> tuple[Any, State]:
        g_r, g_f = [torch.tensor(retain), None, None], [torch.tensor(forget), torch.ones(2), None]
        if weighting.needs is Needs.RETAIN_EXAMPLES:
            g_r[0] = torch.stack([0.25 * torch.tensor(retain), 0.75 * torch.tensor(retain).flip(0)])
        direction, new_state = combine(g_r, g_f, state, options)
        return _plain(direction), new_state

    state, rng = weighting.init(7), random.Random("gradients")
    for _ in range(3):
        retain = [*(rng.gauss(0.0, 1.0) for _ in range(12)), 0.0]
        forget = [*(rng.gauss(0.0, 1.0) for _ in range(12)), 0.0]
        (both, single, none), state = _call_twice(combined, retain, forget, state, defaults(weighting.options))
        assert (len(both), len(single), none) == (13, 2, None), "the direction must have the shapes of the gradients"
        assert all(map(math.isfinite, both + single)), "the direction must be finite"


def _histories() -> Iterator[list[tuple[Losses, Gramian]]]:
    """Yield sequences of one to four steps, the same in each call. About half of the numbers are extreme values."""
    rng = random.Random("histories")

    def draw(extremes: Sequence[float], typical: float) -> float:
        return rng.choice(extremes) if rng.random() < 0.5 else typical

    def losses() -> Losses:
        retain = draw(_LOSSES, rng.uniform(-100.0, 100.0))
        forget = draw(_LOSSES, rng.uniform(-100.0, 100.0))
        return Losses(retain, forget)

    def gramian() -> Gramian:
        rho = draw(_NORMS, 10.0 ** rng.uniform(-6.0, 6.0))
        phi = draw(_NORMS, 10.0 ** rng.uniform(-6.0, 6.0))
        cosine = draw(_COSINES, rng.uniform(-1.0, 1.0))
        return Gramian(rr=rho * rho, rf=cosine * rho * phi, ff=phi * phi)

    for _ in range(_HISTORIES):
        yield [(losses(), gramian()) for _ in range(rng.randint(1, 4))]
