"""Sign: every weight moves by the learning rate, in the direction of the sign of the optimizer's momentum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainables.updates.base import Update

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer


def attach(optimizer: Optimizer) -> None:
    """Replace the optimizer's step ``-lr m`` by ``-lr sign(m)``.

    The momentum ``m`` is the moving average of gradients for AdamW (whose own direction has the same signs: signAdam),
    and the momentum buffer for SGD, or the gradient without momentum (signSGD). Weight decay acts as in the optimizer's
    own step. A weight whose momentum is 0 does not move. The optimizer's state is unchanged.
    """
    import torch

    rates: list[float] = []

    def before(optimizer: Optimizer, *_: Any) -> None:
        rates[:] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = 0.0  # the step then changes only the optimizer's state

    @torch.no_grad()
    def after(optimizer: Optimizer, *_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
            for parameter in group["params"]:
                if parameter.grad is not None:
                    momentum = _momentum(optimizer, parameter, group["weight_decay"])
                    if "betas" in group:  # AdamW: the decay is decoupled
                        parameter.mul_(1.0 - rate * group["weight_decay"])
                    parameter.sub_(momentum.sign(), alpha=rate)

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)


def _momentum(optimizer: Optimizer, parameter: Tensor, weight_decay: float) -> Tensor:
    """Return the optimizer's momentum after its step: of AdamW, of SGD, or the gradient with L2 decay."""
    state = optimizer.state[parameter]
    for name in ("exp_avg", "momentum_buffer"):
        momentum: Tensor | None = state.get(name)
        if momentum is not None:
            return momentum
    assert parameter.grad is not None
    return parameter.grad + weight_decay * parameter


UPDATE = Update(
    name="sign",
    formula="-lr sign(m), where m is the optimizer's momentum",
    citation="Lang et al., Downgrade to Upgrade: Optimizer Simplification Enhances Robustness in LLM Unlearning, ICLR "
    "2026 (arXiv:2510.00761)",
    attach=attach,
    optimizers=("adamw", "sgd"),  # the others adapt their step length to the step that they would take
)
