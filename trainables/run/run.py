"""One unlearning run, from a target to an unlearned model.

    run = UnlearningRun(spec, workspace)
    for report in run:            # one report per epoch; the last one has a status
        print(report.step, report.losses)
    run.model                     # the unlearned model

The training step is :meth:`UnlearningRun._train_step`. On the same CPU, all runs of a spec are bit-identical, even if a
run continues from a saved state.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from trainables.auto_lr.in_run import AutoLR
from trainables.batches import TrainingBatches
from trainables.device import flush_denormals
from trainables.gradients import clip_
from trainables.metrics.losses import agreement, mean_loss
from trainables.objectives import Reference
from trainables.optimizers import make_optimizer, set_rate
from trainables.predictions import item_losses
from trainables.run.combined_gradient import Columns, backward, combined_gradient, with_gradient
from trainables.run.decay import decay_factor
from trainables.run.divergence import RESTART_CUT, Diverged, check_distance, check_finite, distance_columns
from trainables.run.interpolation import Quality, choose_position, unscored_rows
from trainables.run.reports import EpochReport, Status, Timers
from trainables.run.run_state import (
    copies,
    load_training_state,
    load_weights,
    training_state,
    weights_between,
    weights_state,
)
from trainables.run.step_losses import StepLosses
from trainables.run.workspace import Workspace
from trainables.saved_state import load_random_state, random_state
from trainables.scoring.base import ItemLog, Scores
from trainables.spec import TrialSpec
from trainables.target.target import attack_settings
from trainables.text.hidden import block_matrices
from trainables.updates import UPDATES
from trainables.weightings import Gradient


class UnlearningRun:
    """One trial, as an iterator of reports. All runs of a workspace share one model, which every new run resets.

    Args:
        workspace: the loaded target and its data.
        memory_spec: the spec from which ``micro_batch``, ``gradient_checkpointing`` and ``eval_batch_size`` are taken;
            by default ``spec``. The run can load a state that was saved with other values of these settings.

    Attributes:
        model: the model that is being unlearned.
        auto_lr: chooses the learning rate; None if AutoLR is off.
        rate: the learning rate, without the factor of ``TrialSpec.lr_decay``.
        step, epoch: the number of optimizer steps and of passes over the forget set so far.
        items: the per-example values of the metrics, from the last measurement of the metrics.

    Raises:
        ValueError: an option of the method names a layer that the model does not have, or the update needs matrices
            that the model does not have.
        DataError: the weights are to be interpolated, but all retain examples are evaluation examples; or the method
            prefers other answers to questions, but the forget set has texts.
    """

    def __init__(self, spec: TrialSpec, workspace: Workspace, *, memory_spec: TrialSpec | None = None) -> None:
        method = spec.parsed_method
        memory_spec = memory_spec or spec
        torch.manual_seed(spec.seed)
        self.spec, self.workspace = spec, workspace
        self.step, self.epoch, self._done = 0, 0.0, False
        self.items: ItemLog = {}
        self._timers = Timers()
        self._interpolation = math.nan
        self._scores: Scores  # the scores of the model at the last evaluation
        self._last_losses: Mapping[str, float] = {}  # the last finite losses of an evaluation
        self._weighting_state = method.weighting.init(spec.seed)
        forget_lengths, retain_lengths = [workspace.modality.lengths(items) for items in workspace.train_sets]
        self._batches = TrainingBatches(forget_lengths, retain_lengths, batch_size=spec.batch_size, seed=spec.seed)
        self._eval_batch_size = memory_spec.eval_batch_size
        self._evaluator = workspace.evaluator(batch_size=self._eval_batch_size)
        self._evaluator.attack_settings = attack_settings(spec)
        preferred = None
        if method.objective.reference is Reference.PAIR_NLL:
            preferred = workspace.refusals(batch_size=memory_spec.eval_batch_size)
        elif method.objective.reference is Reference.ALTERNATE_NLL:
            preferred = workspace.alternates(batch_size=memory_spec.eval_batch_size, seed=spec.seed)
        self.model = workspace.model_for(
            lora_rank=spec.lora_rank, seed=spec.seed, gradient_checkpointing=memory_spec.gradient_checkpointing
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
        if (attach := UPDATES[spec.update].attach) is not None:
            attach(self.optimizer)
        is_interpolated = spec.interpolate == "on"
        needs_initial_state = is_interpolated or spec.on_divergence == "restart"
        self._initial_state = training_state(self.model, self.optimizer) if needs_initial_state else None
        self._unscored_rows = unscored_rows(workspace.target.data) if is_interpolated else []
        self.losses = StepLosses(spec, workspace, self.model, preferred=preferred, micro_batch=memory_spec.micro_batch)
        self._fixed_forget_gradient = self._compute_fixed_forget_gradient()
        self.auto_lr: AutoLR | None = None
        if spec.auto_lr != "off":
            self.auto_lr = AutoLR(spec, self.optimizer, self.losses, self._batches.probe)
        self.rate = spec.lr
        self._total_steps = self._count_steps()
        self._undone_steps = 0  # the number of steps that restarts discarded

    def _compute_fixed_forget_gradient(self) -> Gradient | None:
        """Return the forget gradient of all steps, if the update has one, as one tensor per parameter.

        The forget batches are those of the first epoch.
        """
        fixed_gradient = UPDATES[self.spec.update].fixed_gradient
        if fixed_gradient is None:
            return None
        batches = [forget for forget, _ in self._batches.epoch(0.0, step=0, max_steps=None)]
        matrices = block_matrices(self.model)
        with self._timers.timed("train_seconds"):
            gradients = fixed_gradient(
                matrices,
                [partial(backward, self.losses.forget_cross_entropy_summands(batch)) for batch in batches],
                [partial(backward, self.losses.forget_summands(batch)) for batch in batches],
                self.spec.values(),
            )
        self.optimizer.zero_grad()  # the gradients of the other weights
        by_matrix = dict(zip(map(id, matrices), gradients, strict=True))
        return [by_matrix.get(id(parameter)) for parameter in self.parameters]

    def _train_step(self, forget: Sequence[int], retain: Sequence[int]) -> Columns:
        """Take one optimizer step. Return the columns of this step for history.csv.

        Raises:
            Diverged: a loss or gradient is not finite, or the optimizer's distance estimate is too large.
        """
        when = f"at step {self.step + 1}"

        # The two losses to minimise, each as a list of summands over micro-batches: L_R (or the KL divergence from the
        # target) on the retain batch, and -L_F, NPO or another objective on the forget batch.
        retain_loss = self.losses.retain_summands(retain)
        forget_loss = self.losses.forget_summands(forget)
        if self._fixed_forget_gradient is not None:
            forget_loss = [partial(with_gradient, forget_loss, self.parameters, self._fixed_forget_gradient)]

        # The gradients g_r and g_f, the method's weights w_r and w_f, and the direction d = w_r g_r + w_f g_f, which is
        # stored in every p.grad.
        columns, self._weighting_state = combined_gradient(
            self.parameters, retain_loss, forget_loss, spec=self.spec, state=self._weighting_state, when=when
        )
        clip_([p.grad for p in self.parameters], self.spec.max_grad_norm, columns["grad_norm"])
        self.step += 1

        # The step theta <- theta - lr d, preconditioned by the optimizer. If an update of AutoLR is due, AutoLR takes
        # this step, at a rate chosen by fitting L_R along the step.
        decay = decay_factor(self.spec.lr_decay, step=self.step, steps=self._total_steps)
        if self.auto_lr is not None and self.auto_lr.is_due(self.step):
            retain_value = columns.get("train_retain_loss")
            self.rate = self.auto_lr.take_step(self.step, forget, retain, retain_value, rate=self.rate, decay=decay)
        else:
            set_rate(self.optimizer, self.rate * decay)
            self.optimizer.step()
        check_distance(self.optimizer, when)
        self.optimizer.zero_grad()
        return columns

    def __iter__(self) -> Iterator[EpochReport]:
        return self

    @flush_denormals()
    def __next__(self) -> EpochReport:
        """Train for one epoch, and return its report.

        If the run diverges and ``TrialSpec.on_divergence`` is ``restart``, the run continues from the target's weights.
        Otherwise, a run that diverges ends with the status ``diverged``.
        """
        if self._done:
            raise StopIteration
        spec = self.spec
        batches = self._batches.epoch(self.epoch, step=self.step, max_steps=spec.max_steps)
        epoch = _rounded(self.epoch + self._batches.passes(batches))
        step_rows: list[Columns] = []
        self.losses.pass_number = int(self.epoch)
        try:
            with self._timers.timed("train_seconds"):
                for forget, retain in batches:
                    step_rows.append(self._train_step(forget, retain))
            if spec.interpolate == "on" and self._is_last(epoch):
                with self._timers.timed("decision_seconds"):
                    self._interpolate()
            is_evaluated = self._is_evaluated(epoch)
            if is_evaluated:
                self._evaluate()
        except Diverged as error:
            if spec.on_divergence != "restart":
                self._done = True
                return self._report({}, status=Status.DIVERGED, error=str(error))
            self._restart(epoch)
            self._evaluate()
            is_evaluated = True
        self.epoch = epoch
        self._done = self._ends_after(epoch)
        metrics: Mapping[str, float] = {}
        if self._is_measured(epoch):
            metrics = self._measure()
        elif is_evaluated:
            with self._timers.timed("eval_seconds"):
                metrics = self._scores.measure_cheap(spec.metrics)
        status = Status.FINISHED if self._done else None
        return self._report(_means(step_rows), metrics=metrics, status=status, is_evaluated=is_evaluated)

    def _restart(self, epoch: float) -> None:
        """Restore the target's weights and the initial optimizer state, and lower the learning rate."""
        assert self._initial_state is not None
        load_training_state(self._initial_state, self.model, self.optimizer)
        self.rate /= RESTART_CUT
        set_rate(self.optimizer, self.rate)
        self._undone_steps = self.step
        self._total_steps = self._count_steps(done=self.step, epoch=epoch)
        self._interpolation = math.nan
        self.optimizer.zero_grad()
        self._weighting_state = self.spec.parsed_method.weighting.init(self.spec.seed)

    def _count_steps(self, *, done: int = 0, epoch: float = 0.0) -> int:
        """Return the total number of steps of a run whose first ``epoch`` epochs took ``done`` steps."""
        steps = done + math.ceil(self.spec.epochs - epoch) * self._batches.steps_per_epoch
        return steps if self.spec.max_steps is None else min(steps, self.spec.max_steps)

    def _is_last(self, epoch: float) -> bool:
        """Return whether this epoch is the last one of the run's schedule."""
        spec = self.spec
        return epoch >= spec.epochs or (spec.max_steps is not None and self.step >= spec.max_steps)

    def _ends_after(self, epoch: float) -> bool:
        """Return whether the run ends after this epoch: the last of its schedule, or ``TrialSpec.stop_epoch``."""
        stop_epoch = self.spec.stop_epoch
        return self._is_last(epoch) or (stop_epoch is not None and epoch >= stop_epoch)

    def _is_measured(self, epoch: float) -> bool:
        every = self.spec.metrics_every
        return self._ends_after(epoch) or (every is not None and epoch % every == 0)

    def _is_evaluated(self, epoch: float) -> bool:
        return epoch % self.spec.eval_every == 0 or self._is_measured(epoch)

    def _evaluate(self) -> None:
        """Compute the losses on the evaluation sets. Raise :class:`Diverged` if a loss is not finite."""
        with self._timers.timed("eval_seconds"):
            self._scores = self._evaluator.scores(
                self.model, retain=self.workspace.target.retain, target=self.workspace.target_model
            )
            losses = self._scores.loss_metrics()
        self._last_losses = {
            name: check_finite(value, name, f"after step {self.step}") for name, value in losses.items()
        }

    def _measure(self) -> Mapping[str, float]:
        with self._timers.timed("eval_seconds"):
            measurement = self._scores.measure(self.spec.metrics)
        self.items = measurement.items
        self._timers.generation_seconds += measurement.generation_seconds
        return measurement.metrics

    def _interpolate(self) -> None:
        """Replace the last weights by the chosen weights. Raise :class:`Diverged` if the last weights have no loss."""
        assert self._initial_state is not None
        target_weights, last_weights = self._initial_state, weights_state(self.model)

        def load(position: float) -> None:
            load_weights(weights_between(target_weights, last_weights, position), self.model)

        def evaluate(position: float) -> Quality:
            load(position)
            return self._quality()

        last = self._quality()
        check_finite(last.loss, "the retain loss", f"after step {self.step}")
        self._interpolation = choose_position(evaluate, last)
        load(self._interpolation)

    def _quality(self) -> Quality:
        """Measure the model on the retain examples that are not evaluation examples."""
        retain = self.workspace.train_sets[1]
        all_lengths = self.workspace.modality.lengths(retain)
        losses = item_losses(
            self.model,
            [all_lengths[row] for row in self._unscored_rows],
            lambda indices: self.workspace.modality.predict(
                self.model, self.workspace.batch(retain, [self._unscored_rows[index] for index in indices])
            ),
            batch_size=self._eval_batch_size,
        )
        return Quality(agreement=agreement(losses), loss=mean_loss(losses))

    def _report(
        self,
        training: Mapping[str, float],
        *,
        metrics: Mapping[str, float] | None = None,
        status: Status | None = None,
        error: str | None = None,
        is_evaluated: bool = True,
    ) -> EpochReport:
        columns = dict(training)
        if status is not Status.DIVERGED:
            columns["lr"] = float(self.optimizer.param_groups[0]["lr"])
            if is_evaluated:
                columns["retain_loss_se"] = self._scores.retain_loss_se
            if "violations" in self._weighting_state:
                columns["violations"] = float(self._weighting_state["violations"])
            if not math.isnan(self._interpolation):
                columns["interpolation"] = self._interpolation
            columns |= distance_columns(self.optimizer)
        if self.spec.on_divergence == "restart":
            columns["steps_undone"] = float(self._undone_steps)
        if self.auto_lr is not None:
            columns |= self.auto_lr.columns()
        return EpochReport(
            step=self.step,
            epoch=self.epoch,
            training=columns,
            losses=self._last_losses if is_evaluated else {},
            timers=replace(self._timers),
            metrics=metrics or {},
            status=status,
            error=error,
            updates=() if self.auto_lr is None else tuple(self.auto_lr.take_updates()),
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which a new run of the same spec continues with bit-identical results.

        All tensors are copies in host memory.
        """
        return {
            "spec_hash": self.spec.spec_hash,
            "step": self.step,
            "epoch": self.epoch,
            "done": self._done,
            "weighting": copies(dict(self._weighting_state)),
            "references": dict(self.losses.references),
            "rate": self.rate,
            "total_steps": self._total_steps,
            "undone_steps": self._undone_steps,
            "auto_lr": None if self.auto_lr is None else self.auto_lr.state_dict(),
            "losses": dict(self._last_losses),
            "tally": asdict(self._timers),
            **training_state(self.model, self.optimizer),
            **random_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state.

        Raises:
            ValueError: the state belongs to another spec.
        """
        if state["spec_hash"] != self.spec.spec_hash:
            raise ValueError(
                f"the state belongs to a trial with other settings: spec hash {state['spec_hash']}, "
                f"not {self.spec.spec_hash}"
            )
        self.step, self.epoch, self._done = state["step"], state["epoch"], state["done"]
        self._weighting_state = copies(state["weighting"], self.workspace.device)
        self.losses.references = state["references"]
        self.rate = state["rate"]
        self._total_steps, self._undone_steps = state["total_steps"], state["undone_steps"]
        if self.auto_lr is not None:
            self.auto_lr.load_state_dict(state["auto_lr"])
        self._last_losses = state["losses"]
        self._timers = Timers(**state["tally"])
        load_training_state(state, self.model, self.optimizer)
        load_random_state(state)


def _rounded(epoch: float) -> float:
    return float(round(epoch)) if math.isclose(epoch, round(epoch), abs_tol=1e-9) else epoch


def _means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return {name: math.fsum(values) / len(values) for name, values in columns.items()}
