"""Compare runs: reports without times, weights, and a checksum of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from trainables.run.reports import EpochReport, Timers
from trainables.run.run import UnlearningRun


def weights_of(run: UnlearningRun) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.parameters]


def same_bits(one: Iterable[Tensor], other: Iterable[Tensor]) -> bool:
    return all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def without_times(reports: Sequence[EpochReport]) -> list[EpochReport]:
    return [replace(report, timers=Timers(), reported_at=0.0, updates=()) for report in reports]
