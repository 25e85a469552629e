"""The optimizers by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from torch.nn import Parameter
    from torch.optim import Optimizer


def make_optimizer(spec: TrialSpec, parameters: Sequence[Parameter]) -> Optimizer:
    """The optimizer of a trial over its trainable parameters; each one's update is linear in lr.

    ``adamw``: betas (0.9, 0.999), eps 1e-8, ``weight_decay`` decoupled (0 by default, so it is the paper's Adam).
    ``sgd``: the paper's Algorithm 1 with ``momentum`` 0.
    """
    import torch

    if spec.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay)
    return torch.optim.AdamW(parameters, lr=spec.lr, weight_decay=spec.weight_decay)
