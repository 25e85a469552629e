"""The divergence from the target, against the sum over the whole vocabulary."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainables.predictions import Predictions
from trainables.text import distributions as module
from trainables.text.distributions import DivergenceFromTarget, distributions

SIZE = 40


def _predictions(seed: int, *, scale: float = 1.0) -> Predictions:
    """Return random predictions for two texts, with two and four supervised positions."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(2, 5, SIZE, generator=generator)
    labels = torch.tensor([[-100, 3, 4, -100, -100], [7, 0, 9, 1, -100]])
    supervised = labels >= 0
    nll = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(2, 5)
    return Predictions(logits, labels, nll, supervised)


def _direct(target: Predictions, model: Predictions) -> list[list[float]]:
    log_p, log_q = (torch.log_softmax(item.logits.double(), -1) for item in (target, model))
    kl = (log_p.exp() * (log_p - log_q)).sum(-1)
    return [kl[row][target.supervised[row]].tolist() for row in range(2)]


def _totals(target: Predictions, model: Predictions) -> list[float]:
    divergence = DivergenceFromTarget(distributions(target)[::-1])
    swapped = [torch.flip(part, (0,)) for part in (model.logits, model.labels, model.nll, model.supervised)]
    divergence([0, 1], Predictions(*swapped))
    return divergence.totals.tolist()[::-1]


def test_the_divergence_is_exact_for_a_small_vocabulary() -> None:
    target, model = _predictions(0), _predictions(1)
    assert _totals(target, model) == pytest.approx([sum(row) for row in _direct(target, model)], rel=1e-5)
    assert _totals(target, target) == pytest.approx([0.0, 0.0], abs=1e-5)


def test_with_the_most_probable_tokens_alone_it_is_lower_by_at_most_the_stated_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "EXACT_SIZE", SIZE - 1)
    monkeypatch.setattr(module, "TOP", 6)
    target, model = _predictions(0), _predictions(1)
    found, exact = _totals(target, model), [sum(row) for row in _direct(target, model)]
    log_p, log_q = (torch.log_softmax(item.logits.double(), -1) for item in (target, model))
    for row in range(2):
        gap = 0.0
        for p, q in zip(log_p[row][target.supervised[row]], log_q[row][target.supervised[row]], strict=True):
            others = p.argsort(descending=True)[6:]
            r, s = p[others].exp().sum(), q[others].exp().sum()
            gap += float(r * (p[others] - q[others]).max() - r * (r / s).log())
        assert exact[row] - gap <= found[row] < exact[row]
        assert found[row] > 0.5 * exact[row]


def test_a_broken_model_counts_as_a_uniform_guess_at_most() -> None:
    target, model = _predictions(0), _predictions(1, scale=1e4)
    capped = [sum(min(value, math.log(SIZE)) for value in row) for row in _direct(target, model)]
    assert _totals(target, model) == pytest.approx(capped)


def test_a_model_without_numbers_has_no_divergence() -> None:
    model = _predictions(1)
    model.logits[1, 0] = torch.nan
    first, second = _totals(_predictions(0), model)
    assert math.isfinite(first)
    assert np.isnan(second)
