"""Floating-point mode of a computing thread, and transfers to a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trainables.device import on_device, smallest_as_zero


def _product() -> float:
    return float((torch.full((8,), 1e-30) * 1e-10).sum())


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this CPU cannot flush denormal numbers to 0")
def test_denormal_numbers_are_0_inside_and_only_there() -> None:
    assert _product() > 0
    with smallest_as_zero():
        assert _product() == 0
    assert _product() > 0
    with pytest.raises(KeyError), smallest_as_zero():
        raise KeyError
    assert _product() > 0


class _Recorded:
    """A stand-in for a tensor that records what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def pin_memory(self) -> _Recorded:
        self.asked.append("pinned")
        return self

    def to(self, device: str, **options: bool) -> _Recorded:
        self.asked.append((device, options))
        return self


def test_a_transfer_to_a_gpu_uses_pinned_memory_and_does_not_wait() -> None:
    recorded: Any = _Recorded()
    on_device(recorded, "cuda:0")
    assert recorded.asked == ["pinned", ("cuda:0", {"non_blocking": True})]
