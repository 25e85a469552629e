"""Combine the gradients of the retain loss and the forget loss, with as few backward passes as possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from trainables.gradients import combine_, gramian, norm, take_gradient
from trainables.run.divergence import check_finite
from trainables.spec import TrialSpec
from trainables.updates import UPDATES
from trainables.weightings import NO_GRAMIAN, Gradient, Gramian, Losses, Needs, State, Weights

Loss = Callable[[], Tensor]
"""A function that returns a scalar with an autograd graph: a loss, or the summand of a loss from one micro-batch."""

Columns = dict[str, float]


def combined_gradient(
    parameters: Sequence[Parameter],
    retain_loss: Sequence[Loss],
    forget_loss: Sequence[Loss],
    *,
    spec: TrialSpec,
    state: State,
    when: str,
) -> tuple[Columns, State]:
    """Compute the gradients ``g_r`` and ``g_f`` of the two losses, and store their combination in ``p.grad``.

    The combination is ``w_r g_r + w_f g_f`` with the weighting's weights, or the output of ``Weighting.combine``. If
    the weights depend only on the losses and there is one micro-batch, one backward pass is enough, unless the update
    changes the forget gradient. With several micro-batches, each micro-batch has a backward pass, and ``g_r`` and
    ``g_f`` are in memory at the same time.

    Args:
        retain_loss, forget_loss: one function per micro-batch. The values of the functions add up to the loss.
        state: the state of the weighting before this step.
        when: the step as a text, such as ``at step 3``, for the end of error messages.

    Returns:
        The columns of this step for history.csv, and the state of the weighting after this step.

    Raises:
        Diverged: a loss or a gradient is not finite.
    """
    weighting, options = spec.parsed_method.weighting, spec.option_values

    def weigh(losses: Losses, products: Gramian) -> tuple[Weights, State]:
        assert weighting.weigh is not None
        weights, new_state = weighting.weigh(losses, products, state, options)
        if spec.weight_scale == "unit":
            weights = weights.unit()
        return weights, new_state

    update = UPDATES[spec.update]

    def forget_backward() -> Tensor:
        if update.forget_gradient is None:
            return backward(forget_loss)
        return update.forget_gradient(parameters, lambda: backward(forget_loss), spec.values())

    has_one_micro_batch = len(retain_loss) == len(forget_loss) == 1
    if weighting.needs in (Needs.RETAIN_ONLY, Needs.FORGET_ONLY):
        is_retain = weighting.needs is Needs.RETAIN_ONLY
        side = "retain" if is_retain else "forget"
        loss = backward(retain_loss) if is_retain else forget_backward()
        # The weight scale has no effect: this loss has weight 1, and the other loss has weight 0. So c_t is 1 or 0.
        columns = {
            f"train_{side}_loss": check_finite(loss.item(), f"the {side} loss", when),
            "c_t": 1.0 if is_retain else 0.0,
        }
    elif weighting.needs is Needs.LOSSES and has_one_micro_batch and update.forget_gradient is None:
        retain, forget = retain_loss[0](), forget_loss[0]()
        losses, columns = _finite_losses(retain, forget, when)
        weights, state = weigh(losses, NO_GRAMIAN)
        (weights.retain * retain + weights.forget * forget).backward()
        columns |= _share_columns(weights)
    else:
        examples: Gradient = []
        if weighting.needs is Needs.RETAIN_EXAMPLES:
            retain, examples = _example_gradients(parameters, retain_loss)
            g_r: Gradient = [None if rows is None else rows.sum(dim=0) for rows in examples]
        else:
            retain = backward(retain_loss)
            g_r = take_gradient(parameters)
        forget = forget_backward()
        g_f = take_gradient(parameters)
        losses, columns = _finite_losses(retain, forget, when)
        products = NO_GRAMIAN
        if weighting.needs is not Needs.LOSSES:
            products = gramian(g_r, g_f)
            check_finite(products.rr, "the squared norm of the retain gradient", when)
            check_finite(products.ff, "the squared norm of the forget gradient", when)
            columns |= {"grad_norm_retain": products.rho, "grad_norm_forget": products.phi, "grad_cosine": -products.k}
        if weighting.combine is None:
            weights, state = weigh(losses, products)
            combine_(parameters, g_r, g_f, weights)
            columns |= _share_columns(weights)
        else:
            direction, state = weighting.combine(examples or g_r, g_f, state, options)
            for parameter, gradient in zip(parameters, direction, strict=True):
                parameter.grad = gradient
    grad_norm = norm([parameter.grad for parameter in parameters])
    columns["grad_norm"] = check_finite(grad_norm, "the norm of the step's gradient", when)
    return columns, state


def backward(summands: Sequence[Loss]) -> Tensor:
    """Add the gradients of all summands of a loss to ``p.grad``, and return the loss."""
    total_loss: Tensor | None = None
    for summand in summands:
        loss = summand()
        loss.backward()
        total_loss = loss.detach() if total_loss is None else total_loss + loss.detach()
    assert total_loss is not None, "a loss needs at least one summand"
    return total_loss


def with_gradient(summands: Sequence[Loss], parameters: Sequence[Parameter], gradient: Gradient) -> Tensor:
    """Return the sum of the summands, as a loss whose gradient is ``gradient`` instead of its own."""
    with torch.no_grad():
        loss = torch.stack([summand() for summand in summands]).sum()
    for parameter, tensor in zip(parameters, gradient, strict=True):
        if tensor is not None:
            loss = loss + ((parameter - parameter.detach()) * tensor).sum()  # adds 0 to the value
    return loss


def _example_gradients(parameters: Sequence[Parameter], summands: Sequence[Loss]) -> tuple[Tensor, Gradient]:
    """Return the sum of the summands, and for each parameter one row per summand: the gradient of the summand."""
    losses, gradients = [], []
    for summand in summands:
        losses.append(backward([summand]))
        gradients.append(take_gradient(parameters))
    rows: Gradient = []
    for tensors in zip(*gradients, strict=True):
        example = next((tensor for tensor in tensors if tensor is not None), None)
        filled = (
            [torch.zeros_like(example) if tensor is None else tensor for tensor in tensors]
            if example is not None
            else []
        )
        rows.append(torch.stack(filled) if filled else None)
    return torch.stack(losses).sum(), rows


def _finite_losses(retain: Tensor, forget: Tensor, when: str) -> tuple[Losses, Columns]:
    losses = Losses(*torch.stack((retain.detach(), forget.detach())).tolist())  # one transfer to the host
    check_finite(losses.retain, "the retain loss", when)
    check_finite(losses.forget, "the forget loss", when)
    return losses, {"train_retain_loss": losses.retain, "train_forget_loss": losses.forget}


def _share_columns(weights: Weights) -> Columns:
    return {} if math.isnan(weights.c) else {"c_t": weights.c}
