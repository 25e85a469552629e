"""One unlearning run, from a target to an unlearned model: the training loop, top to bottom.

    run = UnlearningRun(spec, workspace)
    for report in run:            # one report per epoch; the last one has a status
        print(report.step, report.losses)
    run.model                     # the unlearned model

A run is deterministic: the same spec on the same machine's CPU gives the same bits, also when its state is saved after
any report and loaded into a new run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from trainables.auto_lr.in_run import AutoLR
from trainables.batches import EndlessBatches, epoch_batches, padded_positions
from trainables.run.gradients import combine_, gramian, norm, take_gradient
from trainables.run.optimizers import LR_FREE, make_optimizer
from trainables.run.reports import Report, Status
from trainables.run.step_losses import StepLosses
from trainables.run.workspace import Workspace
from trainables.scoring.measured import ItemLog
from trainables.spec import TrialSpec
from trainables.weightings import Losses, Needs, Weights

if TYPE_CHECKING:
    from torch import Tensor


class Diverged(Exception):
    """A loss or gradient became NaN or infinite; the message says which and where."""


class UnlearningRun:
    """One trial as an iterator of reports. It owns the workspace's model until the next run takes it."""

    def __init__(self, spec: TrialSpec, workspace: Workspace, *, landscape_points: int = 0) -> None:
        """``landscape_points``: at each AutoLR update, evaluate so many points along the step; ``auto_lr`` has them."""
        import torch

        torch.manual_seed(spec.seed)
        method = spec.parsed_method
        self.spec = spec
        self.model = workspace.model_for(spec)
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = make_optimizer(spec, self.parameters)
        self.step = 0
        self.epoch = 0.0
        self._workspace = workspace
        self._forget, self._retain = workspace.train_sets(spec)
        self._forget_lengths, self._retain_lengths = map(workspace.modality.lengths, (self._forget, self._retain))
        self._evaluator = workspace.evaluator(spec)
        self._losses = StepLosses(spec, workspace, self.model)
        self.auto_lr = AutoLR(
            spec,
            workspace,
            self.model,
            self.optimizer,
            retain_is_cross_entropy=self._losses.retain_is_cross_entropy,
            landscape_points=landscape_points,
        )
        self._weighting = method.weighting
        self._options = method.resolve(dict(spec.options))
        self._weighting_state = method.weighting.init(spec.seed)
        self._last_losses: Mapping[str, float] = {}
        self._train_seconds = 0.0
        self._eval_seconds = 0.0
        self._generation_seconds = 0.0
        self.items: ItemLog = {}
        self._done = False
        self._padded, self._positions = 0, 0
        self._retain_batches = EndlessBatches(self._retain_lengths, spec.batch_size, f"retain:{spec.seed}")

    def __iter__(self) -> Iterator[Report]:
        return self

    def __next__(self) -> Report:
        """Run one epoch (or what ``max_steps`` leaves of it) and report.

        A run whose loss or gradient is not finite ends here: its last report has status ``diverged`` and the last
        finite evaluation losses, or none if there never were any.
        """
        if self._done:
            raise StopIteration
        started = time.perf_counter()
        training: dict[str, float] = {}
        try:
            training = self._train_epoch()
            self._train_seconds += time.perf_counter() - started
            started = time.perf_counter()
            losses = self._evaluator.losses(self.model)
            self._eval_seconds += time.perf_counter() - started
            for name, value in losses.items():
                if not math.isfinite(value):
                    raise Diverged(f"{name} is {value} after step {self.step}")
        except Diverged as error:
            self._train_seconds += time.perf_counter() - started
            self._done = True
            return self._report(training, self._last_losses, status=Status.DIVERGED, error=str(error))
        self._last_losses = losses
        if not self._finished():
            every = self.spec.metrics_every
            due = every is not None and self.epoch % every == 0
            return self._report(training, losses, final=self._measure() if due else None)
        final = self._measure()
        self._done = True
        return self._report(training, losses, final=final, status=Status.FINISHED)

    def state_dict(self) -> dict[str, Any]:
        """Everything a new run of the same spec needs to go on as this one would have, bit for bit.

        A snapshot in host memory: neither this run's further steps nor a new run on its workspace change it.
        """
        import torch

        return {
            "spec_hash": self.spec.spec_hash,
            "step": self.step,
            "epoch": self.epoch,
            "parameters": _host_copies(self.parameters),
            "buffers": _host_copies(list(self.model.buffers())),
            "optimizer": _host_copies(self.optimizer.state_dict()),
            "weighting": dict(self._weighting_state),
            "references": self._losses.state(),
            **self.auto_lr.state_dict(),
            "last_losses": dict(self._last_losses),
            "seconds": (self._train_seconds, self._eval_seconds),
            "padding": (self._padded, self._positions),
            "generation_seconds": self._generation_seconds,
            "done": self._done,
            "rng": torch.get_rng_state(),
            "cuda_rng": [torch.cuda.get_rng_state()] if torch.cuda.is_available() else [],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            ValueError: the state belongs to another spec.
        """
        import torch

        if state["spec_hash"] != self.spec.spec_hash:
            raise ValueError(f"this state belongs to spec {state['spec_hash']}, not to {self.spec.spec_hash}")
        with torch.no_grad():
            for parameter, value in zip(self.parameters, state["parameters"], strict=True):
                parameter.copy_(value)
            for buffer, value in zip(self.model.buffers(), state["buffers"], strict=True):
                buffer.copy_(value)
        self.optimizer.load_state_dict(_host_copies(state["optimizer"]))  # it would keep the tensors it is given
        self.step, self.epoch = state["step"], state["epoch"]
        self.auto_lr.load_state_dict(state)
        self._weighting_state = state["weighting"]
        self._losses.load_state(state.get("references", {}))  # a state of an older version has none
        self._last_losses = state["last_losses"]
        self._train_seconds, self._eval_seconds = state["seconds"]
        self._padded, self._positions = state.get("padding", (0, 0))  # not in states of before it was counted
        self._generation_seconds = state.get("generation_seconds", 0.0)
        self._done = state["done"]
        torch.set_rng_state(state["rng"])
        if state["cuda_rng"]:
            torch.cuda.set_rng_state(state["cuda_rng"][0])

    def _measure(self) -> Mapping[str, float]:
        """The chosen metrics; the per-item values behind them are then in ``items``."""
        started = time.perf_counter()
        found = self._evaluator.measure(
            self.model, self.spec.metrics, retain=self._workspace.target.retain, unchanged=True
        )
        self.items = found.items
        self._generation_seconds += found.generation_seconds
        self._eval_seconds += time.perf_counter() - started
        return found.metrics

    # One epoch -------------------------------------------------------------------------------------------------------

    def _train_epoch(self) -> dict[str, float]:
        """One pass over the forget set, with a retain batch of the same size at each step; returns the means."""
        spec = self.spec
        batches = epoch_batches(self._forget_lengths, spec.batch_size, f"forget:{spec.seed}:{self.epoch}")
        if spec.max_steps is not None:
            batches = batches[: spec.max_steps - self.step]
        seen: list[dict[str, float]] = []
        items = 0
        for indices in batches:
            retain_indices = self._retain_batches[self.step]
            seen.append(self._train_step(indices, retain_indices))
            self._count_padding(indices, retain_indices)
            items += len(indices)
        self.epoch += items / len(self._forget_lengths)
        if math.isclose(self.epoch, round(self.epoch), abs_tol=1e-9):
            self.epoch = float(round(self.epoch))
        return _means(seen) | self._learning_rate_columns()

    def _train_step(self, forget_indices: Sequence[int], retain_indices: Sequence[int]) -> dict[str, float]:
        """Gradients of both losses, their weights, one optimizer step (at AutoLR's rate when it is due)."""
        measured = self._set_gradient(forget_indices, retain_indices)
        self.step += 1
        self._clip(measured["grad_norm"])
        if self.auto_lr.is_due(self.step):
            self.auto_lr.take_step(self.step, forget_indices, retain_indices, measured.get("train_retain_loss"))
        else:
            self.optimizer.step()
        self._check_distance()
        for parameter in self.parameters:
            parameter.grad = None
        return measured

    def _set_gradient(self, forget_indices: Sequence[int], retain_indices: Sequence[int]) -> dict[str, float]:
        """Leave ``w_r g_r + w_f g_f`` in ``p.grad``, in as few backward passes as the weighting allows."""
        needs = self._weighting.needs
        if needs is Needs.RETAIN_ONLY:
            measured = self._one_sided("retain", self._losses.retain(retain_indices))
        elif needs is Needs.FORGET_ONLY:
            measured = self._one_sided("forget", self._losses.forget(forget_indices))
        elif needs is Needs.LOSSES:
            retain, forget = self._losses.retain(retain_indices), self._losses.forget(forget_indices)
            losses = self._finite_losses(retain, forget)
            weights = self._weigh(losses, None)
            (weights.retain * retain + weights.forget * forget).backward()
            measured = _loss_columns(losses) | _share_column(weights)
        else:
            measured = self._two_gradients(forget_indices, retain_indices)
        grad_norm = norm([parameter.grad for parameter in self.parameters])
        return measured | {"grad_norm": self._finite("the norm of the step's gradient", grad_norm)}

    def _one_sided(self, side: str, loss: Tensor) -> dict[str, float]:
        """The gradient of one loss under a weighting that is 1 for it and 0 for the other; the weights' sum is 1."""
        loss.backward()
        measured = {f"train_{side}_loss": self._finite(f"the {side} loss", loss.item())}
        return measured | {"c_t": 1.0 if side == "retain" else 0.0}

    def _two_gradients(self, forget_indices: Sequence[int], retain_indices: Sequence[int]) -> dict[str, float]:
        """A backward pass per loss, then the weighted sum of the gradients or what the method makes of them."""
        retain = self._losses.retain(retain_indices)
        retain.backward()
        g_r = take_gradient(self.parameters)
        forget = self._losses.forget(forget_indices)
        forget.backward()
        g_f = take_gradient(self.parameters)
        losses = self._finite_losses(retain, forget)
        inner = gramian(g_r, g_f)
        self._finite("the squared norm of the retain gradient", inner.rr)
        self._finite("the squared norm of the forget gradient", inner.ff)
        measured = _loss_columns(losses)
        measured |= {"grad_norm_retain": inner.rho, "grad_norm_forget": inner.phi, "grad_cosine": -inner.k}
        if self._weighting.combine is None:
            weights = self._weigh(losses, inner)
            combine_(self.parameters, g_r, g_f, weights)
            return measured | _share_column(weights)
        direction, self._weighting_state = self._weighting.combine(g_r, g_f, self._weighting_state, self._options)
        for parameter, part in zip(self.parameters, direction, strict=True):
            parameter.grad = part
        return measured

    def _weigh(self, losses: Losses, inner: Any) -> Weights:
        weights, self._weighting_state = self._weighting.weigh(losses, inner, self._weighting_state, self._options)
        return weights.unit() if self.spec.weight_scale == "unit" else weights

    def _count_padding(self, forget_indices: Sequence[int], retain_indices: Sequence[int]) -> None:
        """Add a step's positions; a batch that the weighting has no use for was never made."""
        needs = self._weighting.needs
        batches = [(self._forget_lengths, forget_indices)] if needs is not Needs.RETAIN_ONLY else []
        batches += [(self._retain_lengths, retain_indices)] if needs is not Needs.FORGET_ONLY else []
        for lengths, indices in batches:
            padded, positions = padded_positions([lengths[index] for index in indices])
            self._padded += padded
            self._positions += positions

    # Bookkeeping -----------------------------------------------------------------------------------------------------

    def _clip(self, norm: float) -> None:
        """Clip the combined direction, as ``max_grad_norm`` asks; it changes normalised directions, so it is off.

        By torch's rule, ``g *= min(1, max_grad_norm / (|g| + 1e-6))``, with the norm that is known already.
        """
        import torch

        limit = self.spec.max_grad_norm
        if limit is not None and (factor := limit / (norm + 1e-6)) < 1.0:
            torch._foreach_mul_([part.grad for part in self.parameters if part.grad is not None], factor)

    def _finite(self, what: str, value: float) -> float:
        if not math.isfinite(value):
            raise Diverged(f"{what} is {value} at step {self.step + 1}")
        return value

    def _finite_losses(self, retain: Tensor, forget: Tensor) -> Losses:
        import torch

        losses = Losses(*torch.stack((retain.detach(), forget.detach())).tolist())  # one transfer to the host
        self._finite("the retain loss", losses.retain)
        self._finite("the forget loss", losses.forget)
        return losses

    def _check_distance(self) -> None:
        if self.spec.optimizer in LR_FREE:
            from trainables.run.distance_optimizers import run_away

            if (reason := run_away(self.optimizer)) is not None:
                raise Diverged(f"{reason} at step {self.step}")

    def _finished(self) -> bool:
        spec = self.spec
        return self.epoch >= spec.epochs or (spec.max_steps is not None and self.step >= spec.max_steps)

    def _learning_rate_columns(self) -> dict[str, float]:
        columns = {"lr": float(self.optimizer.param_groups[0]["lr"])}
        if self.spec.optimizer in LR_FREE:
            from trainables.run.distance_optimizers import distance_columns

            columns |= distance_columns(self.optimizer)
        if "violations" in self._weighting_state:
            columns["violations"] = float(self._weighting_state["violations"])
        return columns | self.auto_lr.columns()

    def _report(
        self,
        training: Mapping[str, float],
        losses: Mapping[str, float],
        *,
        final: Mapping[str, float] | None = None,
        status: Status | None = None,
        error: str | None = None,
    ) -> Report:
        updates, self.auto_lr.updates = self.auto_lr.updates, []
        return Report(
            step=self.step,
            epoch=self.epoch,
            training=training,
            losses=losses,
            train_seconds=self._train_seconds,
            eval_seconds=self._eval_seconds,
            padding=self._padded / self._positions if self._positions else None,
            final=final or {},
            status=status,
            error=error,
            generation_seconds=self._generation_seconds,
            auto_lr=tuple({"step": step, **update.row()} for step, update in updates),
        )


def _loss_columns(losses: Losses) -> dict[str, float]:
    return {"train_retain_loss": losses.retain, "train_forget_loss": losses.forget}


def _share_column(weights: Weights) -> dict[str, float]:
    """``c_t``, where the weights have one."""
    return {} if math.isnan(weights.c) else {"c_t": weights.c}


def _host_copies(values: Any) -> Any:
    """The nested lists and dictionaries with every tensor copied to host memory."""
    import torch

    if isinstance(values, torch.Tensor):
        return values.detach().to("cpu", copy=True)
    if isinstance(values, dict):
        return {key: _host_copies(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(_host_copies(value) for value in values)
    return values


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Per column the mean over the rows that have it."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in columns.items()}
