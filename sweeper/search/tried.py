"""Know which configurations a sweep has tried, and draw one that it has not tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Mapping
from functools import cached_property
from typing import Any

from search_spaces.common.values import Value
from search_spaces.space import Space

Config = Mapping[str, Any]
_RANDOM_DRAWS = 1000
"""The number of random draws from a space that cannot be listed. After these, the space counts as completely tried."""


class TriedConfigurations:
    """The configurations of the trials of a sweep.

    Args:
        identify: returns equal values for two configurations if their trials would be equal.
        first_seed: the seed of a configuration's first trial.
        random_seed: the seed of :meth:`draw`.
    """

    def __init__(
        self, space: Space, *, identify: Callable[[Config], Hashable], first_seed: int, random_seed: int
    ) -> None:
        self._space = space
        self._identify = identify
        self._first_seed = first_seed
        self._random_seed = random_seed
        self._tried: set[Hashable] = set()

    def __contains__(self, config: Config) -> bool:
        return self._identify(config) in self._tried

    def add(self, config: Config) -> None:
        self._tried.add(self._identify(config))

    @property
    def size(self) -> int | None:
        """The number of different configurations in the space; None if they cannot be listed."""
        return None if self._listed is None else len(self._listed)

    @property
    def has_all(self) -> bool:
        """Whether every configuration of the space has been tried. False if they cannot be listed."""
        return self._listed is not None and self._listed.keys() <= self._tried

    def draw(self) -> dict[str, Value] | None:
        """Draw an untried configuration at random, or return None if there is none.

        The result depends only on the tried configurations and the random seed.
        """
        seed = self._random_seed + len(self._tried)
        if self._listed is not None:
            untried = [config for identity, config in self._listed.items() if identity not in self._tried]
            return random.Random(seed).choice(untried) if untried else None
        import optuna

        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
        for _ in range(_RANDOM_DRAWS):
            config = self._space.suggest(study.ask())
            if self._with_seed(config) not in self:
                return config
        return None

    @cached_property
    def _listed(self) -> dict[Hashable, dict[str, Value]] | None:
        configs = self._space.configurations()
        if configs is None:
            return None
        return {self._identify(self._with_seed(config)): config for config in configs}

    def _with_seed(self, config: Mapping[str, Value]) -> dict[str, Value]:
        return {**config, "seed": self._first_seed}
