"""Sampling every parameter of a space whichever apply, for samplers that cannot do with conditions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.samplers import BaseSampler
from optuna.trial import TrialState

Distributions = Mapping[str, BaseDistribution]
Propose = Callable[[optuna.Study, optuna.trial.FrozenTrial], dict[str, Any]]
"""A value of every parameter for the trial that asks."""


class WholeSpaceSampler(BaseSampler):
    """Gives a trial what ``propose`` says; of the parameters that do not apply to it Optuna never asks the value."""

    def __init__(self, distributions: Distributions, propose: Propose, *, seed: int) -> None:
        self._distributions = dict(distributions)
        self._propose = propose
        self._rest = optuna.samplers.RandomSampler(seed=seed)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Every parameter of the space."""
        return self._distributions

    def sample_relative(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A value of each."""
        return self._propose(study, trial)

    def sample_independent(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, name: str, distribution: BaseDistribution
    ) -> Any:
        """A parameter outside the space, of which there is none: at random."""
        return self._rest.sample_independent(study, trial, name, distribution)


class ImputingSampler:
    """Asks a sampler over a copy of the study in which every trial has every parameter.

    What does not apply to a trial is put in the middle of its range, which is how sequential model-based optimisation
    treats conditions (Hutter et al. 2011 impute a default): there a model sees no effect, as there is none.
    """

    def __init__(self, sampler: BaseSampler, distributions: Distributions) -> None:
        self._sampler = sampler
        self._distributions = dict(distributions)
        self._middle = {name: value_at(item, 0.5) for name, item in distributions.items()}

    def __call__(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """The sampler's proposal after what has ended and beside what runs."""
        copy = optuna.create_study(directions=study.directions, sampler=self._sampler)
        for other in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.RUNNING)):
            if other.number != trial.number:
                copy.add_trial(
                    optuna.trial.create_trial(
                        state=other.state,
                        values=other.values,
                        params=self._middle | other.params,
                        distributions=self._distributions,
                        constraints=other.constraints or None,
                    )
                )
        proposed: dict[str, Any] = copy.ask(fixed_distributions=self._distributions).params
        return proposed


class Sobol:
    """Scrambled Sobol' points over the unit cube (Owen 1998), the n-th for the n-th trial that asks."""

    def __init__(self, distributions: Distributions, *, seed: int) -> None:
        self._distributions = dict(distributions)
        self._seed = seed

    def __call__(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """The next point."""
        from scipy.stats import qmc

        asked = _asked_before(study, trial)
        engine = qmc.Sobol(len(self._distributions), scramble=True, rng=np.random.default_rng(self._seed))
        point = engine.random(1 << asked.bit_length())[asked]  # whole powers of two keep the sequence balanced
        return {
            name: value_at(item, float(share))
            for (name, item), share in zip(self._distributions.items(), point, strict=True)
        }


class CenterFirst:
    """Proposes the middle of every range to the first trial that asks, and to the others what ``then`` says.

    Who states a range expects the good values inside it: its middle is the best guess before anything is known.
    """

    def __init__(self, distributions: Distributions, then: Propose) -> None:
        self._middle = {name: value_at(item, 0.5) for name, item in distributions.items()}
        self._then = then

    def __call__(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """The middle, or the next proposal."""
        return self._then(study, trial) if _asked_before(study, trial) else self._middle


class StartupSampler(BaseSampler):
    """Gives the first ``trials`` that ask, those of earlier sweeps among them, what one sampler says, then another."""

    def __init__(self, first: BaseSampler, then: BaseSampler, *, trials: int) -> None:
        self._first, self._then, self._trials = first, then, trials

    def _now(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> BaseSampler:
        return self._first if _asked_before(study, trial) < self._trials else self._then

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """That of the sampler whose turn it is."""
        space: dict[str, BaseDistribution] = self._now(study, trial).infer_relative_search_space(study, trial)
        return space

    def sample_relative(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """What it proposes."""
        proposed: dict[str, Any] = self._now(study, trial).sample_relative(study, trial, search_space)
        return proposed

    def sample_independent(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, name: str, distribution: BaseDistribution
    ) -> Any:
        """A parameter of which it proposed nothing."""
        return self._now(study, trial).sample_independent(study, trial, name, distribution)

    def before_trial(self, study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        """Told to both."""
        for sampler in (self._first, self._then):
            sampler.before_trial(study, trial)

    def after_trial(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        """Told to both."""
        for sampler in (self._first, self._then):
            sampler.after_trial(study, trial, state, values)


def _asked_before(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> int:
    """How many earlier trials asked a sampler: those that were enqueued did not."""
    earlier = study.get_trials(deepcopy=False)[: trial.number]
    return sum("fixed_params" not in other.system_attrs for other in earlier)


def value_at(distribution: Any, share: float) -> Any:
    """The value at ``share`` in [0, 1) of a range, of its logarithm where it is logarithmic, or of a list."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(share * len(distribution.choices))]
    low, high = distribution.low, distribution.high
    if whole := isinstance(distribution, optuna.distributions.IntDistribution):
        low, high = low - 0.5, high + 0.5
    value = math.exp(math.log(low) + share * math.log(high / low)) if distribution.log else low + share * (high - low)
    value = min(max(value, distribution.low), distribution.high)
    return round(value) if whole else value
