"""Compare runs: reports without times, weights, and a checksum of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from trainables.run.reports import EpochReport
from trainables.run.run import UnlearningRun


def weights_of(run: UnlearningRun) -> list[Tensor]:
    return [parameter.detach().clone() for parameter in run.parameters]


def same_bits(one: Iterable[Tensor], other: Iterable[Tensor]) -> bool:
    return all(torch.equal(mine, theirs) for mine, theirs in zip(one, other, strict=True))


def without_times(reports: Sequence[EpochReport]) -> list[dict[str, Any]]:
    rows = [{**report.row(), **report.outcome()} for report in reports]
    return [{name: value for name, value in row.items() if "seconds" not in name} for row in rows]
