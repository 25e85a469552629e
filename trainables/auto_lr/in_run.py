"""AutoLR within a run: when it is due, which retain batches it probes, and the loss landscape along its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.guard import Memory
from trainables.auto_lr.parabola import Fit
from trainables.auto_lr.rule import Rule
from trainables.auto_lr.step import Update, auto_lr_step
from trainables.batches import EndlessBatches

if TYPE_CHECKING:
    from torch.optim import Optimizer
    from transformers import PreTrainedModel

LossOn = Callable[[Sequence[Sequence[int]]], Callable[[], float]]
"""Makes batches of the examples of these numbers; what it returns is their mean cross-entropy at the present weights
(nats per token over all of them, in float32, to be called without gradients)."""

OUTCOMES = ("updates", "not_finite", "no_descent", "no_curvature", "clipped", "rolled_back")
"""What is counted: new rates, refusals by their reason, new rates that were held back, and the steps that a rule with a
guard has undone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When AutoLR updates the rate (steps are counted from 1), by which rule, and on what.

    Attributes:
        every, start: at step ``start`` and every ``every`` steps from there; ``every`` None is never.
        fresh_batches: so many retain batches of its own, never the same twice; 0 is the one the gradient came from.
        log_forget: evaluate ``L_F`` at the first two probes, to be logged.
        landscape_points: evaluate so many points along the step; they decide nothing.
        steps: those of the whole run, for a rule with a guard.
    """

    rule: Rule
    every: int | None = None
    start: int = 1
    fresh_batches: int = 0
    log_forget: bool = False
    landscape_points: int = 0
    steps: int = 0

    def is_update(self, step: int) -> bool:
        """Whether the rate is to be updated at this step."""
        return self.every is not None and step >= self.start and (step - self.start) % self.every == 0

    def is_due(self, step: int) -> bool:
        """Whether this step is AutoLR's to take: an update, or any from the first on where the rule has a guard."""
        return self.is_update(step) or (self.every is not None and self.rule.guard is not None and step >= self.start)


class AutoLR:
    """Takes the optimizer's step wherever an update of the learning rate is due.

    Attributes:
        counts: how often what of ``OUTCOMES`` happened.
        updates: ``(step, update)`` since they were last taken away.
        landscape: rows of landscape.csv, ``landscape_points`` an update.
    """

    def __init__(
        self,
        schedule: Schedule,
        model: PreTrainedModel,
        optimizer: Optimizer,
        *,
        retain_loss: LossOn,
        forget_loss: LossOn,
        fresh: EndlessBatches,
        training_loss_is_probe: bool,
        restart: Callable[[], None] | None,
    ) -> None:
        """``training_loss_is_probe``: the training's loss on a retain batch is ``retain_loss``'s, to the bit.

        ``restart``: puts weights, buffers and optimizer back to the run's start; a rule with a guard alone asks for it.
        """
        self.schedule = schedule
        self.counts = dict.fromkeys(OUTCOMES, 0)
        self.updates: list[tuple[int, Update]] = []
        self.landscape: list[dict[str, float | None]] = []
        self._model = model
        self._optimizer = optimizer
        self._retain_loss, self._forget_loss = retain_loss, forget_loss
        self._fresh = fresh
        self._zero_is_known = training_loss_is_probe and not schedule.fresh_batches
        self._memory: Memory = schedule.rule.init()
        self._last: Update | None = None
        self._restart, self._begun_at = restart, 0
        self._steps = schedule.steps
        self._rate = float(optimizer.param_groups[0]["lr"])  # the one last chosen, from which it is annealed

    def take_step(
        self, step: int, forget_indices: Sequence[int], retain_indices: Sequence[int], retain_loss: float | None
    ) -> None:
        """Let the optimizer step once along ``p.grad``, at a fitted rate.

        ``retain_loss`` is the training's loss on ``retain_indices`` before the step, if it was computed.
        """
        guard = self.schedule.rule.guard
        if guard is not None:
            self._set_rate(self._rate * guard.share(step, self._steps))
            if self._memory["settled"] or not self.schedule.is_update(step):
                self._optimizer.step()
                return
        retain_now = self._retain_loss(self._probed(step, retain_indices))
        self._fitted_step(step, forget_indices, retain_now, retain_loss if self._zero_is_known else None)

    def _fitted_step(
        self, step: int, forget_indices: Sequence[int], retain_now: Callable[[], float], loss_zero: float | None
    ) -> None:
        schedule, model = self.schedule, self._model
        looked_at = schedule.log_forget or schedule.landscape_points
        forget_now = self._forget_loss([forget_indices]) if looked_at else None

        def look_around(go: Callable[[float], None], fit: Fit) -> None:
            assert forget_now is not None
            for x in _landscape_grid(max(fit.eta, fit.eta_star or 0.0), points=schedule.landscape_points):
                go(x)
                fitted = {name: getattr(fit, name) for name in ("eta", "eta_star", "slope", "curvature", "loss_zero")}
                self.landscape.append(
                    {"step": step, "x": x, "retain_loss": retain_now(), "forget_loss": forget_now(), **fitted}
                )

        model.eval()
        update, self._memory = auto_lr_step(
            self._optimizer,
            [*(parameter for parameter in model.parameters() if parameter.requires_grad), *model.buffers()],
            retain_now,
            rule=schedule.rule,
            memory=self._memory,
            loss_zero=loss_zero,
            forget_loss=forget_now if schedule.log_forget else None,
            observe=look_around if schedule.landscape_points else None,
        )
        model.train()
        self.counts[(update.fallback or "updates").replace(" ", "_")] += 1
        self.counts["clipped"] += update.clipped
        self._last = update
        if update.eta_new != update.eta:  # else it is kept, as chosen and not as annealed
            self._rate = update.eta_new
        self.updates.append((step, update))

    def _set_rate(self, rate: float) -> None:
        """Scale all parameter groups alike, to ``rate`` in the first."""
        share = rate / float(self._optimizer.param_groups[0]["lr"])
        for group in self._optimizer.param_groups:
            group["lr"] *= share

    def begin_anew(self, step: int, *, steps: int) -> bool:
        """A loss or gradient is not finite: from the start again, at a lower rate; False where no rule says so.

        ``steps`` will be the whole run's, without those that are left out.
        """
        guard = self.schedule.rule.guard
        if self.schedule.every is None or guard is None:
            return False
        assert self._restart is not None, "a rule with a guard is told how to begin anew"
        self._restart()
        self.counts["rolled_back"] += step - self._begun_at
        self._begun_at, self._steps = step, steps
        self._rate /= guard.cut
        self._set_rate(self._rate)
        return True

    def columns(self) -> dict[str, float]:
        """The columns of history.csv: the counts, and the last fit; none without AutoLR."""
        if self.schedule.every is None:
            return {}
        columns = {f"auto_lr_{name}": float(value) for name, value in self.counts.items()}
        if (last := self._last) is not None:
            columns |= {"auto_lr_slope": last.slope, "auto_lr_curvature": last.curvature}
            if last.eta_star is not None:
                columns["auto_lr_eta_star"] = last.eta_star
        return columns

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs; ``updates`` are part of reports and not of the state."""
        return {
            "counts": dict(self.counts),
            "last": None if self._last is None else asdict(self._last),
            "memory": dict(self._memory),
            "rate": self._rate,
            "begun_at": self._begun_at,
            "steps": self._steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state, also of a version that counted other things."""
        self.counts = {name: state["counts"].get(name, 0) for name in OUTCOMES}
        self._last = None if state["last"] is None else Update(**state["last"])
        self._memory, self._rate = state["memory"], state["rate"]
        self._begun_at = state.get("begun_at", 0)
        self._steps = state.get("steps", self.schedule.steps)

    def _probed(self, step: int, retain_indices: Sequence[int]) -> list[Sequence[int]]:
        """The retain batches probed at a step."""
        count = self.schedule.fresh_batches
        return [self._fresh[number] for number in range(step * count, (step + 1) * count)] or [retain_indices]


def _landscape_grid(rate: float, *, points: int) -> list[float]:
    """``points`` distances from ``-1.5 rate`` to ``2.5 rate``, evenly spaced."""
    return [rate * (-1.5 + 4.0 * index / max(1, points - 1)) for index in range(points)]
