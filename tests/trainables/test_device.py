"""What a process that computes is set to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from trainables.device import prepare_cpu


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.set_flush_denormal(False)


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this CPU cannot take the smallest numbers for 0")
def test_the_smallest_numbers_are_taken_for_0() -> None:
    tiny = torch.full((8,), 1e-30) * 1e-10
    assert (tiny > 0).all()
    prepare_cpu()
    assert (torch.full((8,), 1e-30) * 1e-10 == 0).all()


def test_a_trial_has_the_threads_it_was_given_and_at_least_one() -> None:
    prepare_cpu(2.0)
    assert torch.get_num_threads() == 2
    prepare_cpu(0.5)
    assert torch.get_num_threads() == 1
    prepare_cpu()
    assert torch.get_num_threads() == 1
