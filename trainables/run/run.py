"""One unlearning run, from a target to an unlearned model: the training loop is ``UnlearningRun.__next__``.

    run = UnlearningRun(spec, workspace)
    for report in run:            # one report per epoch; the last one has a status
        print(report.step, report.losses)
    run.model                     # the unlearned model

A run is deterministic: the same spec on the same machine's CPU gives the same bits, also when its state is saved after
any report and loaded into a new run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import torch

from trainables.auto_lr.in_run import AutoLR, Schedule
from trainables.auto_lr.rules import RULES
from trainables.batches import EndlessBatches, epoch_batches
from trainables.device import smallest_as_zero
from trainables.gradients import clip_
from trainables.methods import retain_objective_problem
from trainables.objectives import Reference
from trainables.optimizers import make_optimizer
from trainables.run.combined_gradient import combined_gradient
from trainables.run.divergence import Diverged, check_distance, distance_columns, finite
from trainables.run.interpolation import Seen, Start, nearest
from trainables.run.reports import Report, Status
from trainables.run.run_state import load_torch_state, torch_state
from trainables.run.step_losses import StepLosses
from trainables.run.tally import Tally
from trainables.run.thrift import Thrift
from trainables.run.workspace import Workspace
from trainables.scoring.measured import ItemLog
from trainables.spec import TrialSpec
from trainables.weightings import Needs


class UnlearningRun:
    """One trial as an iterator of reports. It owns the workspace's model until the next run takes it.

    Attributes:
        model: what is being unlearned; ``parameters`` are the trainable ones.
        step, epoch: optimizer steps and passes over the forget set so far.
        items: the per-item values behind the last metrics measured.
    """

    def __init__(
        self, spec: TrialSpec, workspace: Workspace, *, landscape_points: int = 0, thrift: Thrift | None = None
    ) -> None:
        """``landscape_points``: at each AutoLR update, evaluate so many points along the step; ``auto_lr`` has them.

        ``thrift``: how to save memory, in place of what the spec asks for; states of the spec go with any.

        Raises:
            ValueError: the method and the retain objective do not go together, or the method not with this model.
        """
        method, thrift = spec.parsed_method, thrift or Thrift.of(spec)
        if problem := retain_objective_problem(method, spec.retain_objective):
            raise ValueError(problem)
        torch.manual_seed(spec.seed)
        self.spec = spec
        self.step, self.epoch = 0, 0.0
        self.items: ItemLog = {}
        self._weighting, self._options = method.weighting, method.resolve(dict(spec.options))
        self._weighting_state = method.weighting.init(spec.seed)
        self._losses: Mapping[str, float] = {}  # the last finite ones of the evaluation
        self._tally = Tally()
        self._interpolation: float | None = None
        self._done = False

        sizes = {"max_length": spec.max_length, "batch_size": thrift.eval_batch_size}
        self._evaluator = workspace.evaluator(**sizes)
        self._retain_values = workspace.target.retain
        forget, retain = workspace.train_sets(max_length=spec.max_length)
        self._forget_lengths, self._retain_lengths = map(workspace.modality.lengths, (forget, retain))
        self._retain_batches = EndlessBatches(self._retain_lengths, spec.batch_size, f"retain:{spec.seed}")
        refusals = workspace.refusals(**sizes) if method.objective.reference is Reference.PAIR_NLL else None
        self.model = workspace.model_for(
            lora_rank=spec.lora_rank,
            seed=spec.seed,
            gradient_checkpointing=thrift.gradient_checkpointing,
            with_frozen_target=spec.needs_frozen_target,
        )
        self.parameters = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = make_optimizer(
            spec.optimizer,
            self.parameters,
            lr=spec.lr,
            weight_decay=spec.weight_decay,
            momentum=spec.momentum,
            growth=spec.d_growth,
        )
        self.losses = StepLosses(
            workspace,
            self.model,
            forget=forget,
            retain=retain,
            objective=method.objective,
            options=self._options,
            retain_objective=spec.retain_objective,
            refusals=refusals,
            seed=spec.seed,
            bf16=spec.dtype == "bf16",
            micro_batch=thrift.micro_batch,
        )
        self._start = Start(self.model, self.optimizer) if spec.is_interpolated or spec.begins_anew else None
        self.auto_lr = AutoLR(
            Schedule(
                rule=RULES[spec.auto_lr_smoothing],
                every=spec.auto_lr_every if spec.auto_lr == "on" else None,
                start=spec.auto_lr_start,
                fresh_batches=spec.auto_lr_probe_batches if spec.auto_lr_probe == "fresh" else 0,
                log_forget=spec.auto_lr_log_forget,
                landscape_points=landscape_points,
                steps=self._steps(),
            ),
            self.model,
            self.optimizer,
            retain_loss=self.losses.retain_probe,
            forget_loss=self.losses.forget_probe,
            fresh=EndlessBatches(self._retain_lengths, spec.batch_size, f"probe:{spec.seed}"),
            training_loss_is_probe=self.losses.retain_loss_is_probe and workspace.train_mode_is_eval_mode,
            restart=self._start.restore if self._start else None,
        )

    def _steps(self, *, done: int = 0, epoch: float = 0.0) -> int:
        """The optimizer steps of the whole run, of which so many are ``done`` until ``epoch``."""
        steps = done + math.ceil(self.spec.epochs - epoch) * -(-len(self._forget_lengths) // self.spec.batch_size)
        return steps if self.spec.max_steps is None else min(steps, self.spec.max_steps)

    def __iter__(self) -> Iterator[Report]:
        return self

    @smallest_as_zero()
    def __next__(self) -> Report:
        """Train for one epoch, a pass over the forget set (or what ``max_steps`` leaves of it), and report.

        A run whose loss or gradient is not finite ends here: its last report has status ``diverged`` and the last
        finite evaluation losses, or none if there never were any. AutoLR's rule may begin anew.
        """
        if self._done:
            raise StopIteration
        spec, training, begun_anew = self.spec, {}, False
        batches = self._batches()
        epoch = _whole(self.epoch + sum(len(forget) for forget, _ in batches) / len(self._forget_lengths))
        measured: list[dict[str, float]] = []
        try:
            with self._tally.timed("train_seconds"):
                for forget, retain in batches:  # numbers of B forget and of B retain examples
                    l_r = self.losses.retain_parts(retain)  # summands of what is minimised: L_R, KL to the target, ...
                    l_f = self.losses.forget_parts(forget)  # the same: -L_F under ascent, NPO, ...
                    # Their gradients g_r and g_f, the method's weights w_r and w_f of the two, and in every p.grad,
                    # shaped as p, the direction d = w_r g_r + w_f g_f.
                    columns, self._weighting_state = combined_gradient(
                        self.parameters,
                        l_r,
                        l_f,
                        self._weighting,
                        self._weighting_state,
                        options=self._options,
                        unit=spec.weight_scale == "unit",
                        when=f"at step {self.step + 1}",
                    )
                    clip_([p.grad for p in self.parameters], spec.max_grad_norm, columns["grad_norm"])
                    self.step += 1
                    if self.auto_lr.schedule.is_due(self.step):
                        # The same step, at the rate that AutoLR's rule finds in L_R, probed along the step.
                        self.auto_lr.take_step(self.step, forget, retain, columns.get("train_retain_loss"))
                    else:
                        self.optimizer.step()  # theta <- theta - lr d, preconditioned as the optimizer does
                    check_distance(self.optimizer, f"at step {self.step}")
                    for p in self.parameters:
                        p.grad = None
                    self._count_padding(forget, retain)
                    measured.append(columns)
            training = _means(measured)
            if evaluated := self._is_evaluated(epoch):
                self._losses = self._evaluate()
        except Diverged as error:
            if not self.auto_lr.begin_anew(self.step, steps=self._steps(done=self.step, epoch=epoch)):
                self._done = True
                return self._report(training, status=Status.DIVERGED, error=str(error))
            for p in self.parameters:
                p.grad = None
            self._weighting_state = self._weighting.init(spec.seed)
            training, self._losses, evaluated, begun_anew = _means(measured), self._evaluate(), True, True
        self.epoch, self._done = epoch, self._is_last(epoch)
        if self._done and spec.is_interpolated and not begun_anew:
            self._interpolate()
        final = self._measure() if self._is_measured(epoch) else {}
        if not evaluated:
            report = self._report(training)
            measured_here = {name: value for name, value in report.training.items() if name != "retain_loss_se"}
            return replace(report, training=measured_here, losses={})
        return self._report(training, final=final, status=Status.FINISHED if self._done else None)

    def _is_last(self, epoch: float) -> bool:
        spec = self.spec
        return epoch >= spec.epochs or (spec.max_steps is not None and self.step >= spec.max_steps)

    def _is_measured(self, epoch: float) -> bool:
        """Whether the metrics are due after an epoch."""
        every = self.spec.metrics_every
        return self._is_last(epoch) or (every is not None and epoch % every == 0)

    def _is_evaluated(self, epoch: float) -> bool:
        """Whether the losses are; metrics are of a model whose losses are known."""
        return epoch % self.spec.eval_every == 0 or self._is_measured(epoch)

    def _evaluate(self) -> Mapping[str, float]:
        """``L_F`` and ``L_R`` on the fixed evaluation sets; raises :class:`Diverged` where one is not finite."""
        with self._tally.timed("eval_seconds"):
            losses = self._evaluator.losses(self.model)
        return {name: finite(value, name, f"after step {self.step}") for name, value in losses.items()}

    def _interpolate(self) -> None:
        """Go back towards the target on the line between, as far as what is forgotten stays so."""
        assert self._start is not None
        go, last = self._start.line(), self._seen()
        at = 1.0

        def look(share: float) -> Seen:
            nonlocal at
            go(at := share)
            try:
                self._losses = self._evaluate()
            except Diverged:
                return Seen(0.0, -math.inf, math.inf)
            return self._seen()

        self._interpolation = nearest(look, last)
        if self._interpolation != at:
            look(self._interpolation)

    def _seen(self) -> Seen:
        losses = self._losses
        return Seen(losses["forget_loss_capped"], self._evaluator.retain_agreement, losses["retain_loss"])

    def _batches(self) -> list[tuple[Sequence[int], Sequence[int]]]:
        """The batches of the next epoch: one pass over the forget set, beside endless ones over the retain set."""
        spec = self.spec
        forget = epoch_batches(self._forget_lengths, spec.batch_size, f"forget:{spec.seed}:{self.epoch}")
        if spec.max_steps is not None:
            forget = forget[: spec.max_steps - self.step]
        return [(indices, self._retain_batches[step]) for step, indices in enumerate(forget, start=self.step)]

    def _count_padding(self, forget: Sequence[int], retain: Sequence[int]) -> None:
        """Add a step's positions; a batch that the weighting has no use for was never made."""
        needs = self._weighting.needs
        if needs is not Needs.RETAIN_ONLY:
            self._tally.count_batch([self._forget_lengths[index] for index in forget])
        if needs is not Needs.FORGET_ONLY:
            self._tally.count_batch([self._retain_lengths[index] for index in retain])

    def _measure(self) -> Mapping[str, float]:
        """The chosen metrics; the per-item values behind them are then in ``items``."""
        with self._tally.timed("eval_seconds"):
            found = self._evaluator.measure(self.model, self.spec.metrics, retain=self._retain_values, unchanged=True)
        self.items = found.items
        self._tally.generation_seconds += found.generation_seconds
        return found.metrics

    def _learning_rate_columns(self) -> dict[str, float]:
        columns = {"lr": float(self.optimizer.param_groups[0]["lr"]), "retain_loss_se": self._evaluator.retain_loss_se}
        if "violations" in self._weighting_state:
            columns["violations"] = float(self._weighting_state["violations"])
        if self._interpolation is not None:
            columns["interpolation"] = self._interpolation
        return columns | distance_columns(self.optimizer) | self.auto_lr.columns()

    def _report(
        self,
        training: Mapping[str, float],
        *,
        final: Mapping[str, float] | None = None,
        status: Status | None = None,
        error: str | None = None,
    ) -> Report:
        updates, self.auto_lr.updates = self.auto_lr.updates, []
        return Report(
            step=self.step,
            epoch=self.epoch,
            training={} if status is Status.DIVERGED else {**training, **self._learning_rate_columns()},
            losses=self._losses,
            train_seconds=self._tally.train_seconds,
            eval_seconds=self._tally.eval_seconds,
            generation_seconds=self._tally.generation_seconds,
            padding=self._tally.padding,
            final=final or {},
            status=status,
            error=error,
            auto_lr=tuple({"step": step, **asdict(update)} for step, update in updates),
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything a new run of the same spec needs to go on as this one would have, bit for bit.

        A snapshot in host memory: neither this run's further steps nor a new run on its workspace change it.
        """
        return {
            "spec_hash": self.spec.spec_hash,
            "step": self.step,
            "epoch": self.epoch,
            "done": self._done,
            "weighting": dict(self._weighting_state),
            "references": dict(self.losses.references),
            "auto_lr": self.auto_lr.state_dict(),
            "losses": dict(self._losses),
            "tally": asdict(self._tally),
            **torch_state(self.model, self.optimizer),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            ValueError: the state belongs to another spec.
        """
        if state["spec_hash"] != self.spec.spec_hash:
            raise ValueError(f"this state belongs to spec {state['spec_hash']}, not to {self.spec.spec_hash}")
        self.step, self.epoch, self._done = state["step"], state["epoch"], state["done"]
        self._weighting_state = state["weighting"]
        self.losses.references = state["references"]
        self.auto_lr.load_state_dict(state["auto_lr"])
        self._losses = state["losses"]
        self._tally = Tally(**state["tally"])
        load_torch_state(state, self.model, self.optimizer)


def _whole(epoch: float) -> float:
    """``epoch`` without the rounding of its parts' sum, where they add up to a whole number."""
    return float(round(epoch)) if math.isclose(epoch, round(epoch), abs_tol=1e-9) else epoch


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Per column the mean over the rows that have it."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in columns.items()}
