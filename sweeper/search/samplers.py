"""The samplers by name: what chooses the next configuration.

Measured of Optuna 5.0 on spaces with conditions (``c`` for gdiff only): TPE models each group of parameters that occur
together. NSGA-II and NSGA-III cross only the parameters that all trials have and draw the others at random. Optuna's
GPSampler and QMCSampler would do the same (QMCSampler also draws choices at random), so here both see every parameter
of the space, those that do not apply put in the middle (:mod:`sweeper.search.sampler_wrappers`).

TPE and the Gaussian process begin with the middle of the space and then quasi-random points, where Optuna's would draw
them at random: of ten random ones the first few may all be hopeless, which is what a short sweep suffers from most
(docs/search.md).

Of trials that still run, TPE takes the worst (its constant liar), the Gaussian process integrates over what its model
says of them (qLogEHVI), and the others need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.space import Space

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What a sampler is made for: the space, and ``trials`` in all, some ``asked`` for before a resume."""

    space: Space
    trials: int
    seed: int = 0
    asked: int = 0

    @property
    def new_seed(self) -> int:
        """A resumed sampler must not draw its first proposals again."""
        return self.seed + self.asked

    @property
    def startup(self) -> int:
        """How many trials a model is first fitted to."""
        return max(4, min(10, self.trials // 3))

    @property
    def population(self) -> int:
        """Optuna's population of 50 would make a shorter sweep pure random search."""
        return max(4, min(50, self.trials // 4))


def _begun(search: Search, model: optuna.samplers.BaseSampler) -> optuna.samplers.BaseSampler:
    """``model`` after a start that leaves little to luck."""
    from sweeper.search.sampler_wrappers import CenterFirst, Sobol, StartupSampler, WholeSpaceSampler

    distributions = search.space.distributions()
    start = CenterFirst(distributions, Sobol(distributions, seed=search.seed))
    return StartupSampler(WholeSpaceSampler(distributions, start, seed=search.new_seed), model, trials=search.startup)


def _tpe(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    model = optuna.samplers.TPESampler(
        multivariate=True, group=True, constant_liar=True, n_startup_trials=search.startup, seed=search.new_seed
    )
    return _begun(search, model)


def _nsga2(search: Search) -> optuna.samplers.BaseSampler:
    """Optuna's uniform crossover over two or three parameters would mostly repeat the parents."""
    import optuna

    return optuna.samplers.NSGAIISampler(
        population_size=search.population, crossover=optuna.samplers.nsgaii.SBXCrossover(), seed=search.new_seed
    )


def _nsga3(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.NSGAIIISampler(
        population_size=search.population, crossover=optuna.samplers.nsgaii.SBXCrossover(), seed=search.new_seed
    )


def _gp(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    from sweeper.search.sampler_wrappers import ImputingSampler, WholeSpaceSampler

    model = optuna.samplers.GPSampler(
        n_startup_trials=search.startup, warn_independent_sampling=False, seed=search.new_seed
    )
    distributions = search.space.distributions()
    return _begun(search, WholeSpaceSampler(distributions, ImputingSampler(model, distributions), seed=search.new_seed))


def _qmc(search: Search) -> optuna.samplers.BaseSampler:
    from sweeper.search.sampler_wrappers import Sobol, WholeSpaceSampler

    distributions = search.space.distributions()
    return WholeSpaceSampler(distributions, Sobol(distributions, seed=search.seed), seed=search.new_seed)


def _random(search: Search) -> optuna.samplers.BaseSampler:
    import optuna

    return optuna.samplers.RandomSampler(seed=search.new_seed)


SAMPLERS: Mapping[str, Callable[[Search], optuna.samplers.BaseSampler]] = {
    "tpe": _tpe,
    "nsga2": _nsga2,
    "nsga3": _nsga3,
    "gp": _gp,
    "qmc": _qmc,
    "random": _random,
    "grid": _random,  # a grid is enqueued whole, so that no sampler is ever asked
}
"""What makes each sampler, by name."""
LEARNING = ("tpe", "nsga2", "nsga3", "gp")
"""Those that learn from what trials attain, and from which of them meet the constraints."""
