"""AutoLR in a training run: update the learning rate at regular steps, and record each update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch

from trainables.auto_lr.rule import Fit, fit_parabola
from trainables.auto_lr.rules import RULES
from trainables.auto_lr.safe import CUT, annealing
from trainables.auto_lr.step import UPDATE_COLUMNS, Line
from trainables.batches import EndlessBatches

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from trainables.run.step_losses import StepLosses
    from trainables.spec import TrialSpec

OUTCOMES = ("updates", "not_finite", "no_descent", "no_curvature", "clipped", "rolled_back")
"""The names of AutoLR's counters.

``updates`` counts the updates that chose a rate. ``not_finite``, ``no_descent`` and ``no_curvature`` count the updates
that kept the rate, by reason (see :class:`~trainables.auto_lr.rule.Fit`). ``clipped`` counts the updates in which a
rule that is not guarded chose another rate than ``eta*``. ``rolled_back`` counts the steps that a restart discarded.
"""


class AutoLR:
    """Takes the optimizer steps of a run. Every ``auto_lr_every`` steps, AutoLR also updates the learning rate.

    Args:
        probes: batches of the retain set, in an order independent of the training batches. AutoLR measures losses on
            these batches if ``auto_lr_probe`` is ``fresh``, and otherwise on the retain batch of the step.
        steps: the number of optimizer steps of the whole run.

    Attributes:
        counts: the value of each counter in ``OUTCOMES``.
        updates: the updates of the learning rate since the previous call of :meth:`take_updates`. Each update has the
            columns of auto_lr.csv except the trial's id.
        landscape: the rows of landscape.csv. Each row has the losses at one rate along the direction of an update.
        landscape_points: the number of rates for which each update adds a row to ``landscape``.
    """

    def __init__(
        self, spec: TrialSpec, optimizer: Optimizer, losses: StepLosses, probes: EndlessBatches, *, steps: int
    ) -> None:
        self.rule = RULES[spec.auto_lr_smoothing]
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.updates: list[dict[str, Any]] = []
        self.landscape: list[dict[str, float | None]] = []
        self.landscape_points = 0
        self._spec, self._optimizer, self._losses = spec, optimizer, losses
        self._probes = probes
        self._probe_count = spec.auto_lr_probe_batches if spec.auto_lr_probe == "fresh" else 0
        self._has_chosen = False  # whether an update has chosen a rate
        self._last_update: Mapping[str, Any] | None = None  # the columns of the last update
        self._restart_step = 0
        self._steps = steps
        self._rate = float(optimizer.param_groups[0]["lr"])  # the last chosen rate, before annealing

    def is_due(self, step: int) -> bool:
        """Return whether AutoLR updates the learning rate at this step. A guarded rule chooses a rate only once."""
        steps_since_start = step - self._spec.auto_lr_start
        is_settled = self.rule.is_guarded and self._has_chosen
        return steps_since_start >= 0 and steps_since_start % self._spec.auto_lr_every == 0 and not is_settled

    def take_step(self, step: int, forget: Sequence[int], retain: Sequence[int], retain_loss: float | None) -> None:
        """Take one optimizer step with the gradients in ``p.grad``, at the updated rate if an update is due.

        Args:
            forget, retain: the indices of the examples in the step's forget batch and retain batch.
            retain_loss: the training loss on the retain batch; None if the method does not compute the retain loss.
        """
        if self.rule.is_guarded and step >= self._spec.auto_lr_start:
            self._set_rate(self._rate * annealing(step, self._steps))
        if self.is_due(step):
            self._fit(step, forget, retain, retain_loss)
        else:
            self._optimizer.step()

    @torch.no_grad()
    def _fit(self, step: int, forget: Sequence[int], retain: Sequence[int], retain_loss: float | None) -> None:
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
        line = Line(self._optimizer, [*parameters, *model.buffers()])
        eta = line.eta
        loss_plus = retain_fn()
        forget_plus = forget_fn() if logs_forget else None
        line.move_to(-eta)
        loss_minus = retain_fn()
        forget_minus = forget_fn() if logs_forget else None
        fits = [fit_parabola(eta, retain_loss, loss_plus, loss_minus)]

        def probe(x: float) -> Fit:
            line.move_to(x)
            probe_plus = retain_fn()
            line.move_to(-x)
            probe_minus = retain_fn()
            fits.append(fit_parabola(x, retain_loss, probe_plus, probe_minus))
            return fits[-1]

        choice = self.rule.choose(fits[0], probe)
        fit = fits[-1]
        fallback = choice if isinstance(choice, str) else None
        eta_new = eta if isinstance(choice, str) else choice
        self._record_landscape(step, line, fit, retain_fn, forget_fn)
        line.move_to(eta_new)
        self._set_rate(eta_new)
        model.train()

        # A rule that is not guarded aims at the minimum, so another rate counts as clipped.
        has_minimum = fallback is None and not self.rule.is_guarded
        is_minimum = fit.eta_star is not None and math.isclose(eta_new, fit.eta_star, rel_tol=1e-9)
        is_clipped = has_minimum and not is_minimum
        values = asdict(fit) | {
            "eta": eta,
            "eta_new": eta_new,
            "probe_eta": fit.eta,
            "forget_plus": forget_plus,
            "forget_minus": forget_minus,
            "probes": 2 * len(fits),
            "fallback": fallback,
            "clipped": is_clipped,
        }
        self._last_update = {name: values[name] for name in UPDATE_COLUMNS}
        self.updates.append({"step": step, **self._last_update})
        counter = "updates" if fallback is None else fallback.replace(" ", "_")
        self.counts[counter] += 1
        if is_clipped:
            self.counts["clipped"] += 1
        if fallback is None:
            self._has_chosen = True
        if eta_new != eta:  # otherwise keep the rate from before annealing
            self._rate = eta_new

    def _record_landscape(
        self, step: int, line: Line, fit: Fit, retain_fn: Callable[[], float], forget_fn: Callable[[], float | None]
    ) -> None:
        rate = max(fit.eta, fit.eta_star or 0.0)
        fit_columns = {name: getattr(fit, name) for name in ("eta", "eta_star", "slope", "curvature", "loss_zero")}
        for index in range(self.landscape_points):
            x = rate * (-1.5 + 4.0 * index / max(1, self.landscape_points - 1))  # from -1.5 to 2.5 times the rate
            line.move_to(x)
            self.landscape.append(
                {"step": step, "x": x, "retain_loss": retain_fn(), "forget_loss": forget_fn(), **fit_columns}
            )

    def take_updates(self) -> list[dict[str, Any]]:
        """Return the list ``updates``, and replace it by an empty list."""
        updates, self.updates = self.updates, []
        return updates

    def restart(self, step: int, *, steps: int) -> None:
        """Divide the rate by ``CUT``, because the run restarts from the target's weights.

        ``step`` is the number of steps before the restart. ``steps`` is the new total number of steps of the run,
        including the steps before the restart.
        """
        self.counts["rolled_back"] += step - self._restart_step
        self._restart_step, self._steps = step, steps
        self._rate /= CUT
        self._set_rate(self._rate)

    def _set_rate(self, rate: float) -> None:
        factor = rate / float(self._optimizer.param_groups[0]["lr"])
        for group in self._optimizer.param_groups:
            group["lr"] *= factor

    def columns(self) -> dict[str, float]:
        """Return AutoLR's columns for history.csv: the counters, and the values of the last update."""
        columns = {f"auto_lr_{name}": float(value) for name, value in self.counts.items()}
        last = self._last_update
        if last is not None:
            columns |= {"auto_lr_slope": last["slope"], "auto_lr_curvature": last["curvature"]}
            if last["eta_star"] is not None:
                columns["auto_lr_eta_star"] = last["eta_star"]
        return columns

    def state_dict(self) -> dict[str, Any]:
        """Return the state that :meth:`load_state_dict` needs to continue the run."""
        # The state does not contain the updates, because each report already contains its updates.
        return {
            "counts": dict(self.counts),
            "last": None if self._last_update is None else dict(self._last_update),
            "memory": {"settled": self._has_chosen},
            "rate": self._rate,
            "begun_at": self._restart_step,
            "steps": self._steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.counts = dict(state["counts"])
        self._last_update = state["last"]
        self._rate = state["rate"]
        self._has_chosen = bool(state["memory"].get("settled"))
        self._restart_step, self._steps = state["begun_at"], state["steps"]
