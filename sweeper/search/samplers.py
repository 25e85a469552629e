"""The registry of samplers. A sampler proposes the next configuration.

A space can have conditional parameters. For example, the parameter ``c`` may apply only to the method gdiff.

- TPE models each group of parameters that occur together.
- NSGA-II and NSGA-III apply crossover only to the parameters that all trials have. They draw conditional parameters at
  random.
- GP and QMC propose values for all parameters (:mod:`sweeper.search.sampler_wrappers`). Optuna's GPSampler and
  QMCSampler would draw conditional parameters at random.

TPE and GP start with the middle of the space and quasi-random points. Optuna's TPESampler and GPSampler start with
random points, which may all be bad in a short sweep (docs/search.md).

For a running trial, TPE assumes the worst result (constant liar), and GP integrates over the predicted results
(qLogEHVI). The other samplers ignore running trials.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from search_spaces.space import Space

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The inputs of a search.

    Attributes:
        proposed_trials: the number of trials proposed before the sweep was resumed.
        identify: returns equal values for two configurations if their trials would be equal.
    """

    space: Space
    trials: int
    seed: int = 0
    proposed_trials: int = 0
    identify: Callable[[Mapping[str, Any]], Hashable] = lambda config: frozenset(config.items())

    @property
    def resumed_seed(self) -> int:
        """The sampler's seed. It changes after a resume, so that the sampler does not repeat its first proposals."""
        return self.seed + self.proposed_trials

    @property
    def startup(self) -> int:
        """The number of trials before a model-based sampler fits its model for the first time."""
        return max(4, min(10, self.trials // 3))

    @property
    def population(self) -> int:
        """The population size of NSGA-II and NSGA-III. Optuna's default of 50 makes a short sweep a random search."""
        return max(4, min(50, self.trials // 4))


def _with_startup(search: Search, model: optuna.samplers.BaseSampler) -> optuna.samplers.BaseSampler:
    from sweeper.search.sampler_wrappers import StartupSampler

    return StartupSampler(search.space.distributions(), model, trials=search.startup, seed=search.seed)


def _tpe(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    model = optuna.samplers.TPESampler(
        multivariate=True, group=True, constant_liar=True, n_startup_trials=search.startup, seed=search.resumed_seed
    )
    return _with_startup(search, model)


def _genetic(name: str) -> Callable[[Search], optuna.samplers.BaseSampler]:
    # SBX crossover, because uniform crossover mostly copies parents in small spaces.

    def build(search: Search) -> optuna.samplers.BaseSampler:
        import optuna

        crossover = optuna.samplers.nsgaii.SBXCrossover()
        sampler: type[optuna.samplers.BaseSampler] = getattr(optuna.samplers, name)
        return sampler(population_size=search.population, crossover=crossover, seed=search.resumed_seed)

    return build


def _gp(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    from sweeper.search.sampler_wrappers import ImputingSampler, WholeSpaceSampler

    model = optuna.samplers.GPSampler(
        n_startup_trials=search.startup, warn_independent_sampling=False, seed=search.resumed_seed
    )
    distributions = search.space.distributions()
    return _with_startup(search, WholeSpaceSampler(distributions, ImputingSampler(model, distributions)))


def _qmc(search: Search) -> optuna.samplers.BaseSampler:
    from sweeper.search.sampler_wrappers import WholeSpaceSampler, sampled_before, sobol_point

    distributions = search.space.distributions()

    def propose(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        return sobol_point(distributions, sampled_before(study, trial), seed=search.seed)

    return WholeSpaceSampler(distributions, propose)


def _random(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.RandomSampler(seed=search.resumed_seed)


SAMPLERS: Mapping[str, Callable[[Search], optuna.samplers.BaseSampler]] = {
    "tpe": _tpe,
    "nsga2": _genetic("NSGAIISampler"),
    "nsga3": _genetic("NSGAIIISampler"),
    "gp": _gp,
    "qmc": _qmc,
    "random": _random,
    "grid": _random,  # never used to propose, because all points of a grid are enqueued
}
"""The samplers, keyed by the values of ``--sampler`` (:data:`sweeper.settings.names.SAMPLERS`)."""
