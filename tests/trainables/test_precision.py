"""bfloat16 is refused if it is slower, with the measured ratio."""

from __future__ import annotations

import pytest
import torch

from tests.facts import assert_names
from trainables import precision
from trainables.models import kernels


def test_a_slow_bfloat16_is_a_problem_with_its_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "bf16_gain", lambda: 0.0123)
    assert_names(precision.bf16_problem(), "--dtype bf16", "0.012", f"{precision.WORTH:g}")
    monkeypatch.setattr(precision, "bf16_gain", lambda: precision.WORTH)
    assert precision.bf16_problem() is None


def test_the_gain_is_the_ratio_of_the_best_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock by which every product in float32 takes 3 s and every one in bfloat16 1 s."""
    now = [0.0]

    def linear(x: torch.Tensor, weight: torch.Tensor) -> None:
        now[0] += 3.0 if x.dtype == torch.float32 else 1.0

    monkeypatch.setattr(precision.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(kernels, "onednn_is_faster", lambda: False)
    monkeypatch.setattr(torch.nn.functional, "linear", linear)
    threads = torch.get_num_threads()
    assert precision.bf16_gain() == 3.0
    assert torch.get_num_threads() == threads

    def onednn(x: torch.Tensor, weight: torch.Tensor, bias: None) -> None:
        now[0] += 1.5

    monkeypatch.setattr(kernels, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(kernels, "onednn_product", onednn)
    assert precision.bf16_gain() == 1.5


def test_the_gain_of_this_machine_is_measured() -> None:
    assert 0.0 < precision.bf16_gain() < 100.0
