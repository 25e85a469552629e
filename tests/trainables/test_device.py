"""Floating-point mode of a computing thread, and transfers to a device."""

from __future__ import annotations

import pytest
import torch

from trainables.device import smallest_as_zero


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
