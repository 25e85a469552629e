"""Apply AutoLR in a run: decide when to update the rate and which retain batches to probe, and record the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.parabola import Fit
from trainables.auto_lr.rule import Memory
from trainables.auto_lr.rules import RULES
from trainables.auto_lr.step import Update, auto_lr_step
from trainables.batches import EndlessBatches

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from transformers import PreTrainedModel

    from trainables.spec import TrialSpec

LossOn = Callable[[Sequence[Sequence[int]]], Callable[[], float]]
"""Takes batches of example indices. Returns a function that evaluates the mean cross-entropy of the batches at the
current weights (nats per token over all batches, float32, without gradients)."""

OUTCOMES = ("updates", "not_finite", "no_descent", "no_curvature", "clipped", "rolled_back")
"""The counters: updates with a minimum, updates without a minimum by reason, clipped rates, and steps undone by
restarts."""


class AutoLR:
    """Takes the optimizer's step if an update of the learning rate is due.

    The settings ``auto_lr...`` of the spec say when the rate is updated and which retain batches are probed.

    Attributes:
        rule: the rule of the spec.
        counts: the value of each counter in ``OUTCOMES``.
        updates: the updates since the last report, as ``(step, update)``.
        landscape: the rows of landscape.csv, ``landscape_points`` rows per update.
    """

    def __init__(
        self,
        spec: TrialSpec,
        model: PreTrainedModel,
        optimizer: Optimizer,
        *,
        retain_loss: LossOn,
        forget_loss: LossOn,
        fresh: EndlessBatches,
        training_loss_is_probe: bool,
        restore_initial: Callable[[], None] | None,
        steps: int,
        landscape_points: int = 0,
    ) -> None:
        """Prepare AutoLR for a run.

        Args:
            retain_loss, forget_loss: evaluate ``L_R`` and ``L_F`` on batches.
            fresh: retain batches for probes, in an order that is independent of the training batches.
            training_loss_is_probe: whether the training loss on a retain batch is bit-identical to ``retain_loss``.
            restore_initial: restores the initial weights, buffers and optimizer state; needed by a rule with a guard.
            steps: the number of steps of the whole run, which a rule with a guard needs.
            landscape_points: the number of points along the step at which losses are evaluated for landscape.csv. These
                evaluations do not affect the rate.
        """
        self.rule = RULES[spec.auto_lr_smoothing]
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.updates: list[tuple[int, Update]] = []
        self.landscape: list[dict[str, float | None]] = []
        self._spec, self._on, self._landscape_points = spec, spec.auto_lr == "on", landscape_points
        self._model, self._optimizer = model, optimizer
        self._retain_loss, self._forget_loss = retain_loss, forget_loss
        self._fresh, self._fresh_batches = fresh, spec.auto_lr_probe_batches if spec.auto_lr_probe == "fresh" else 0
        self._zero_is_known = training_loss_is_probe and not self._fresh_batches
        self._memory: Memory = self.rule.init()
        self._last: Update | None = None
        self._restore_initial, self._restarted_at, self._steps = restore_initial, 0, steps
        self._rate = float(optimizer.param_groups[0]["lr"])  # the last rate chosen, before annealing

    def is_due(self, step: int) -> bool:
        """Return whether AutoLR takes this step: an update step or, with a guard, any step from the first update on."""
        guarded = self._on and self.rule.guard is not None and step >= self._spec.auto_lr_start
        return guarded or self._is_update(step)

    def _is_update(self, step: int) -> bool:
        after = step - self._spec.auto_lr_start
        return self._on and after >= 0 and after % self._spec.auto_lr_every == 0

    def take_step(
        self, step: int, forget_indices: Sequence[int], retain_indices: Sequence[int], retain_loss: float | None
    ) -> None:
        """Step the optimizer once along ``p.grad``, at a fitted rate if an update is due.

        ``retain_loss`` is the training loss on ``retain_indices`` before the step; None if it was not computed.
        """
        guard = self.rule.guard
        if guard is not None:
            self._set_rate(self._rate * guard.share(step, self._steps))
            if self._memory["settled"] or not self._is_update(step):
                self._optimizer.step()
                return
        retain_now = self._retain_loss(self._probed(step, retain_indices))
        self._fitted_step(step, forget_indices, retain_now, retain_loss if self._zero_is_known else None)

    def _fitted_step(
        self, step: int, forget_indices: Sequence[int], retain_now: Callable[[], float], loss_zero: float | None
    ) -> None:
        model, points, logs_forget = self._model, self._landscape_points, self._spec.auto_lr_log_forget
        forget_now = self._forget_loss([forget_indices]) if logs_forget or points else None

        def record_landscape(go: Callable[[float], None], fit: Fit) -> None:
            assert forget_now is not None
            rate = max(fit.eta, fit.eta_star or 0.0)
            for index in range(points):  # evenly spaced from -1.5 rate to 2.5 rate
                go(x := rate * (-1.5 + 4.0 * index / max(1, points - 1)))
                fitted = {name: getattr(fit, name) for name in ("eta", "eta_star", "slope", "curvature", "loss_zero")}
                self.landscape.append(
                    {"step": step, "x": x, "retain_loss": retain_now(), "forget_loss": forget_now(), **fitted}
                )

        model.eval()
        update, self._memory = auto_lr_step(
            self._optimizer,
            [*(parameter for parameter in model.parameters() if parameter.requires_grad), *model.buffers()],
            retain_now,
            rule=self.rule,
            memory=self._memory,
            loss_zero=loss_zero,
            forget_loss=forget_now if logs_forget else None,
            observe=record_landscape if points else None,
        )
        model.train()
        self.counts[(update.fallback or "updates").replace(" ", "_")] += 1
        self.counts["clipped"] += update.clipped
        self._last = update
        if update.eta_new != update.eta:  # otherwise keep the rate from before annealing
            self._rate = update.eta_new
        self.updates.append((step, update))

    def _set_rate(self, rate: float) -> None:
        """Scale the rates of all parameter groups by one factor, so that the first group's rate is ``rate``."""
        share = rate / float(self._optimizer.param_groups[0]["lr"])
        for group in self._optimizer.param_groups:
            group["lr"] *= share

    def restart(self, step: int, *, steps: int) -> bool:
        """Restart from the target at a lower rate, because a value was not finite. Return False if there is no guard.

        ``steps`` is the new number of steps of the whole run.
        """
        guard = self.rule.guard
        if not self._on or guard is None:
            return False
        assert self._restore_initial is not None, "a rule with a guard needs restore_initial"
        self._restore_initial()
        self.counts["rolled_back"] += step - self._restarted_at
        self._restarted_at, self._steps = step, steps
        self._rate /= guard.cut
        self._set_rate(self._rate)
        return True

    def columns(self) -> dict[str, float]:
        """Return the columns for history.csv: the counters and the last fit; empty if AutoLR is off."""
        if not self._on:
            return {}
        columns = {f"auto_lr_{name}": float(value) for name, value in self.counts.items()}
        if (last := self._last) is not None:
            columns |= {"auto_lr_slope": last.slope, "auto_lr_curvature": last.curvature}
            if last.eta_star is not None:
                columns["auto_lr_eta_star"] = last.eta_star
        return columns

    def state_dict(self) -> dict[str, Any]:
        """Return the state that a resumed run needs. ``updates`` are not included, because they belong to reports."""
        return {
            "counts": dict(self.counts),
            "last": None if self._last is None else asdict(self._last),
            "memory": dict(self._memory),
            "rate": self._rate,
            "begun_at": self._restarted_at,
            "steps": self._steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. The state may come from an earlier version with other counters."""
        self.counts = {name: state["counts"].get(name, 0) for name in OUTCOMES}
        self._last = None if state["last"] is None else Update(**state["last"])
        self._memory, self._rate = state["memory"], state["rate"]
        self._restarted_at = state.get("begun_at", 0)
        self._steps = state.get("steps", self._steps)

    def _probed(self, step: int, retain_indices: Sequence[int]) -> list[Sequence[int]]:
        count = self._fresh_batches
        return [self._fresh[number] for number in range(step * count, (step + 1) * count)] or [retain_indices]
