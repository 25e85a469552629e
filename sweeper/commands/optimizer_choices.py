"""Do the optimizers a space file searches go with its other choices, and have they learning rates of their own?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from search_spaces.parameters import Choice
from search_spaces.space import Space
from trainables.run.optimizers import LR_FREE, OPTIMIZERS
from trainables.spec import TrialSpec

RELATED = ("optimizer", "auto_lr", "momentum", "d_growth", "lr")
"""Fields that are right or wrong together only."""


def optimizer_problems(space: Space, base: TrialSpec, auto_lr: str) -> list[str]:
    """What is wrong with any combination of optimizer, AutoLR, momentum, growth cap and learning rate.

    A range is looked at by its ends. ``auto_lr`` is what the command line says: off, on or both.
    """
    named = {parameter.name for parameter in space.parameters} | set(space.constants)
    alone = set(base.problems())
    found: list[str] = []
    rates: dict[bool, set[object]] = {True: set(), False: set()}
    for config in _corners(space).grid():
        change: dict[str, Any] = {name: config[name] for name in RELATED if name in config}
        if auto_lr == "on" and "auto_lr" not in named:
            change["auto_lr"] = "on"
        spec = replace(base, **change)
        found += [problem for problem in spec.problems() if problem not in alone]
        if spec.optimizer in OPTIMIZERS:
            rates[spec.optimizer in LR_FREE].add(config.get("lr"))
    if "optimizer" in named and rates[True] & rates[False]:
        found.append(
            f"one learning rate cannot serve {' or '.join(LR_FREE)}, which multiply a step of their own length (1 as "
            "published), and an optimizer whose step it is: search them in two sweeps, or give each an lr with when: "
            "{optimizer: [...]}"
        )
    elif "optimizer" in named and rates[True] == {None}:
        found.append(f"{' or '.join(LR_FREE)} need lr: 1 here, the published multiplier of their step")
    return list(dict.fromkeys(found))


def _corners(space: Space) -> Space:
    """The related parameters, and those their conditions refer to, with a range as its two ends."""
    wanted = {parameter.key for parameter in space.parameters if parameter.name in RELATED}
    for parameter in reversed(space.parameters):  # a condition refers to what is above it
        if parameter.key in wanted:
            wanted |= set(parameter.when)
    kept = [parameter for parameter in space.parameters if parameter.key in wanted]
    return Space(
        tuple(
            item if isinstance(item, Choice) else Choice(item.name, (item.low, item.high), when=item.when, key=item.key)
            for item in kept
        ),
        space.constants,
    )
