"""AutoLR within a run: which retain batches it probes, what it remembers, and the loss landscape along its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.step import AutoLRCounts, Fit, Update, auto_lr_step, is_due
from trainables.batches import EndlessBatches
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from torch.optim import Optimizer


class AutoLR:
    """Takes the optimizer's step wherever an update of the learning rate is due.

    Attributes:
        counts: how often the rate was updated, and how often and why it was kept.
        updates: ``(step, update)`` since they were last taken away.
        landscape: rows of landscape.csv, ``landscape_points`` an update.
    """

    def __init__(
        self,
        spec: TrialSpec,
        workspace: Workspace,
        model: Any,
        optimizer: Optimizer,
        *,
        retain_is_cross_entropy: bool,
        landscape_points: int,
    ) -> None:
        self.counts = AutoLRCounts()
        self.updates: list[tuple[int, Update]] = []
        self.landscape: list[dict[str, float | None]] = []
        self._spec = spec
        self._workspace = workspace
        self._model = model
        self._optimizer = optimizer
        self._landscape_points = landscape_points
        self._last_fit: Fit | None = None
        self._forget, self._retain = workspace.train_sets(spec)
        self._fresh = spec.auto_lr_probe == "fresh"
        self._probes = EndlessBatches(workspace.modality.lengths(self._retain), spec.batch_size, f"probe:{spec.seed}")
        # The training's own retain loss is L0 of the paper's probe where evaluation would compute the same number.
        same_numbers = spec.dtype == "fp32" and workspace.train_mode_is_eval_mode
        self._is_training_loss = not self._fresh and same_numbers and retain_is_cross_entropy

    def is_due(self, step: int) -> bool:
        """Whether the rate is to be updated at this step, counted from 1."""
        spec = self._spec
        return spec.auto_lr == "on" and is_due(step, every=spec.auto_lr_every, start=spec.auto_lr_start)

    def take_step(
        self, step: int, forget_indices: Sequence[int], retain_indices: Sequence[int], retain_loss: float | None
    ) -> None:
        """Let the optimizer step once along ``p.grad``, at a fitted rate.

        ``retain_loss`` is the training's loss on ``retain_indices`` before the step, if it was computed.
        """
        spec, model = self._spec, self._model
        probes = [self._workspace.batch(self._retain, indices) for indices in self._chosen(step, retain_indices)]
        looked_at = spec.auto_lr_log_forget or self._landscape_points
        forgotten = [self._workspace.batch(self._forget, forget_indices)] if looked_at else []

        def record(go: Callable[[float], None], fit: Fit) -> None:
            rates = [fit.eta] if fit.eta_star is None else [fit.eta, fit.eta_star]
            for x in _landscape_grid(max(rates), points=self._landscape_points):
                go(x)
                self.landscape.append(
                    {"step": step, "x": x, "retain_loss": self._loss(probes), "forget_loss": self._loss(forgotten)}
                    | {"eta": fit.eta, "eta_star": fit.eta_star, "slope": fit.slope, "curvature": fit.curvature}
                    | {"loss_zero": fit.loss_zero}
                )

        model.eval()
        update = auto_lr_step(
            self._optimizer,
            [*(parameter for parameter in model.parameters() if parameter.requires_grad), *model.buffers()],
            lambda: self._loss(probes),
            smoothing=spec.auto_lr_smoothing,
            loss_zero=retain_loss if self._is_training_loss else None,
            forget_loss=(lambda: self._loss(forgotten)) if spec.auto_lr_log_forget else None,
            observe=record if self._landscape_points else None,
            settled=self.counts.updates > 0,
        )
        model.train()
        self.counts.record(update)
        self._last_fit = update.fit
        self.updates.append((step, update))

    def columns(self) -> dict[str, float]:
        """The columns of history.csv: the counts, and the last fit; none without AutoLR."""
        if self._spec.auto_lr != "on":
            return {}
        columns = {f"auto_lr_{name}": float(value) for name, value in self.counts.to_dict().items()}
        if (fit := self._last_fit) is not None:
            columns |= {"auto_lr_slope": fit.slope, "auto_lr_curvature": fit.curvature}
            if fit.eta_star is not None:
                columns["auto_lr_eta_star"] = fit.eta_star
        return columns

    def state_dict(self) -> dict[str, Any]:
        """What a resumed run needs; ``updates`` are part of reports and not of the state."""
        return {
            "counts": self.counts.to_dict(),
            "last_fit": None if self._last_fit is None else asdict(self._last_fit),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.counts = AutoLRCounts(**state["counts"])
        self._last_fit = None if state["last_fit"] is None else Fit(**state["last_fit"])

    def _chosen(self, step: int, retain_indices: Sequence[int]) -> list[Sequence[int]]:
        """The retain batches probed at a step: the one its gradient came from, or others, never the same twice."""
        if not self._fresh:
            return [retain_indices]
        count = self._spec.auto_lr_probe_batches
        return [self._probes[number] for number in range(step * count, (step + 1) * count)]

    def _loss(self, batches: Sequence[Any]) -> float:
        # In float32 also under bf16: a step of 1e-5 is below bf16's resolution, so a parabola would fit its
        # rounding; and within one autocast context the cached bf16 weights would hide the step altogether.
        terms = [self._workspace.predict(self._model, batch) for batch in batches]
        return float(sum(item.nll.double().sum() for item in terms) / sum(item.supervised.sum() for item in terms))


def _landscape_grid(rate: float, *, points: int) -> list[float]:
    """``points`` distances from ``-1.5 rate`` to ``2.5 rate``, evenly spaced."""
    return [rate * (-1.5 + 4.0 * index / max(1, points - 1)) for index in range(points)]
