"""AutoLR in a training run: update the learning rate at regular steps, and record each update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from trainables.auto_lr.fit import Fit
from trainables.auto_lr.rules import FALLBACKS, RULES
from trainables.auto_lr.step import UPDATE_COLUMNS, Line
from trainables.batches import EndlessBatches
from trainables.optimizers import set_rate

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer

    from trainables.run.combined_gradient import Loss
    from trainables.run.step_losses import StepLosses
    from trainables.spec import TrialSpec

_ACCEPTED = "accepted"


class AutoLR:
    """Takes the optimizer steps at which the learning rate is updated.

    Args:
        probes: batches of the retain set, in an order independent of the training batches. AutoLR measures losses on
            these batches if ``auto_lr_probe`` is ``fresh``, and otherwise on the retain batch of the step.

    Attributes:
        counts: the number of accepted updates, and for each reason the number of updates that kept the rate.
        updates: the updates of the learning rate since the previous call of :meth:`take_updates`. Each update has the
            columns of auto_lr.csv except the trial's id.
        landscape: the rows of landscape.csv. Each row has the losses at one rate along a direction: ``update``, ``g_R``
            (the gradient of the retain loss) or ``g_F`` (the gradient of the forget objective).
        landscape_points: the number of rates for which each update adds rows to ``landscape``.
    """

    def __init__(self, spec: TrialSpec, optimizer: Optimizer, losses: StepLosses, probes: EndlessBatches) -> None:
        self.rule = RULES[spec.auto_lr]
        self.counts = dict.fromkeys((_ACCEPTED, *FALLBACKS), 0)
        self.updates: list[dict[str, Any]] = []
        self.landscape: list[dict[str, float | str | None]] = []
        self.landscape_points = 0
        self._spec, self._optimizer, self._losses = spec, optimizer, losses
        self._start = spec.auto_lr_start or self.rule.start
        self._probes = probes
        self._probe_count = (spec.auto_lr_probe_batches or 0) if spec.auto_lr_probe == "fresh" else 0
        self._last_update: Mapping[str, Any] | None = None  # the columns of the last update

    def is_due(self, step: int) -> bool:
        """Return whether AutoLR updates the learning rate at this step, counted from 1."""
        steps_since_start = step - self._start
        is_settled = self.rule.once and self.counts[_ACCEPTED] > 0
        return steps_since_start >= 0 and steps_since_start % self._spec.auto_lr_every == 0 and not is_settled

    @torch.no_grad()
    def take_step(
        self,
        step: int,
        forget: Sequence[int],
        retain: Sequence[int],
        retain_loss: float | None,
        *,
        rate: float,
        decay: float = 1.0,
    ) -> float:
        """Choose a new rate, take one optimizer step with the gradients in ``p.grad``, and return the new rate.

        Args:
            forget, retain: the indices of the examples in the step's forget batch and retain batch.
            retain_loss: the training loss on the retain batch; None if the method does not compute the retain loss.
            rate: the current rate, before decay. The first parabola is fitted at this rate.
            decay: the factor of the learning-rate schedule. The step has the new rate times this factor.
        """
        # Probes change the parameters and buffers. Both are restored bit for bit before the step at the chosen rate.
        losses, model = self._losses, self._losses.model
        first_probe = step * self._probe_count
        batches = [self._probes[index] for index in range(first_probe, first_probe + self._probe_count)]
        retain_fn = losses.retain_probe(batches or [retain])
        logs_forget = self._spec.auto_lr_log_forget
        needs_forget = logs_forget or self.landscape_points > 0
        forget_fn = losses.forget_probe([forget]) if needs_forget else lambda: None

        model.eval()
        if retain_loss is None or batches or not losses.retain_loss_is_probe:
            retain_loss = retain_fn()
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        set_rate(self._optimizer, rate)
        line = Line(self._optimizer, [*parameters, *model.buffers()])
        loss_plus = retain_fn()
        forget_plus = forget_fn() if logs_forget else None
        line.move_to(-rate)
        loss_minus = retain_fn()
        forget_minus = forget_fn() if logs_forget else None
        fits = [Fit(rate, retain_loss, loss_plus, loss_minus)]

        def probe(x: float) -> Fit:
            line.move_to(x)
            probe_plus = retain_fn()
            line.move_to(-x)
            probe_minus = retain_fn()
            fits.append(Fit(x, retain_loss, probe_plus, probe_minus))
            return fits[-1]

        spec = self._spec
        choice = self.rule.new_rate(fits[0], probe, delta=spec.auto_lr_delta, steps=spec.auto_lr_every)
        fallback = choice if isinstance(choice, str) else None
        new_rate = rate if isinstance(choice, str) else choice
        fit = fits[-1]
        if self.landscape_points > 0:
            line.move_to(0.0)
            summands = {"g_R": losses.retain_summands(retain), "g_F": losses.forget_summands(forget)}
            no_moves = [None for _ in model.buffers()]
            lines = {"update": line}
            for name, loss in summands.items():
                lines[name] = line.along([*_gradients(loss, parameters), *no_moves])
            self._record_landscape(step, lines, fit, retain_fn, forget_fn)
        line.move_to(new_rate * decay)
        set_rate(self._optimizer, new_rate * decay)
        model.train()

        self.counts[fallback or _ACCEPTED] += 1
        values = {
            **{name: getattr(fit, name) for name in ("eta_star", "slope", "curvature")},
            **{name: getattr(fit, name) for name in ("loss_zero", "loss_plus", "loss_minus")},
            "eta": rate,
            "eta_new": new_rate,
            "probe_eta": fit.eta,
            "forget_plus": forget_plus,
            "forget_minus": forget_minus,
            "probes": 2 * len(fits),
            "fallback": fallback,
        }
        self._last_update = {name: values[name] for name in UPDATE_COLUMNS}
        self.updates.append({"step": step, **self._last_update})
        return new_rate

    def _record_landscape(
        self,
        step: int,
        lines: Mapping[str, Line],
        fit: Fit,
        retain_fn: Callable[[], float],
        forget_fn: Callable[[], float | None],
    ) -> None:
        rate = max(fit.eta, fit.eta_star or 0.0)
        fit_columns = {name: getattr(fit, name) for name in ("eta", "eta_star", "slope", "curvature", "loss_zero")}
        for direction, line in lines.items():
            for index in range(self.landscape_points):
                x = rate * (-1.5 + 4.0 * index / max(1, self.landscape_points - 1))  # from -1.5 to 2.5 times the rate
                line.move_to(x)
                losses = {"retain_loss": retain_fn(), "forget_loss": forget_fn()}
                self.landscape.append({"step": step, "direction": direction, "x": x, **losses, **fit_columns})

    def take_updates(self) -> list[dict[str, Any]]:
        """Return the list ``updates``, and replace it by an empty list."""
        updates, self.updates = self.updates, []
        return updates

    def columns(self) -> dict[str, float]:
        """Return AutoLR's columns for history.csv: the numbers of updates, and the values of the last update."""
        columns = {
            "lr_updates": float(sum(self.counts.values())),
            "lr_updates_accepted": float(self.counts[_ACCEPTED]),
            **{f"auto_lr_{reason.replace(' ', '_')}": float(self.counts[reason]) for reason in FALLBACKS},
        }
        for name in ("slope", "curvature", "eta_star"):
            value = (self._last_update or {}).get(name)
            if value is not None and math.isfinite(value):
                columns[f"auto_lr_{name}"] = value
        return columns

    def state_dict(self) -> dict[str, Any]:
        """Return the state that :meth:`load_state_dict` needs to continue the run."""
        # The state does not contain the updates, because each report already contains its updates.
        return {"counts": dict(self.counts), "last": None if self._last_update is None else dict(self._last_update)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counts = dict(state["counts"])
        self._last_update = state["last"]


@torch.enable_grad()
def _gradients(summands: Sequence[Loss], parameters: Sequence[Tensor]) -> list[Tensor | None]:
    """Return the gradient of a sum of losses for each parameter; None for a parameter without influence."""

    def added(total: Tensor | None, part: Tensor | None) -> Tensor | None:
        return total if part is None else part if total is None else total + part

    gradients: list[Tensor | None] = [None for _ in parameters]
    for summand in summands:
        parts = torch.autograd.grad(summand(), list(parameters), allow_unused=True)
        gradients = list(map(added, gradients, parts))
    return gradients
