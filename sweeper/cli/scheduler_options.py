"""The options that end trials early, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from search_spaces.messages import expected_one_of
from sweeper.cli.options import WHOLE, Decorator

DEFAULTS: Mapping[str, Any] = {"scheduler": "moasha", "grace": 1, "reduction": 2, "stopping": "stop"}
"""What won in docs/search.md; where a sweep is to run whole trials, :func:`scheduler_settings` takes none."""


def scheduler_options() -> Decorator:
    """``--scheduler`` and what belongs to it; what is not given is None."""
    declared = (
        click.option(
            "--scheduler",
            help="none, or moasha, which ends trials that fall behind.  [default: moasha; none with "
            "grid, several seeds, --candidates last, or objectives measured at a trial's end]",
        ),
        click.option("--grace", type=WHOLE, help="Epochs after which trials are first compared.  [default: 1]"),
        click.option(
            "--reduction",
            type=WHOLE,
            help="About one in so many goes on, and is compared again after as many times the epochs.  [default: 2]",
        ),
        click.option(
            "--stopping",
            help="stop ends a trial that falls behind; pause keeps its state, and it goes on when later trials turn "
            "out worse.  [default: stop]",
        ),
    )

    def decorate(function: Any) -> Any:
        for option in reversed(declared):
            function = option(function)
        return function

    return decorate


def scheduler_settings(
    given: Mapping[str, Any], *, epochs: int, eval_every: int = 1, blind: bool = False
) -> tuple[dict[str, Any], list[str]]:
    """The settings by name, with the defaults, and a plain sentence for each that cannot be; ``epochs`` of a trial.

    Where not every epoch is evaluated trials are first compared after the first one that is.

    Whole trials are the default of a sweep that repeats each configuration, runs a grid, takes last epochs only, or is
    ``blind``: measures its objectives at the end of a trial, so that one ended early would be on no front.
    """
    from sweeper.search.halving import MODES
    from sweeper.search.schedulers import NONE, SCHEDULERS
    from sweeper.settings.sweep_settings import LAST

    asked = {name: given[name] for name in DEFAULTS if given.get(name) is not None}
    repeated = given.get("sampler") == "grid" or (given.get("seeds") or 1) > 1
    whole = blind or repeated or given.get("candidates", LAST) == LAST
    begun = {"grace", "reduction", "stopping"} & asked.keys()
    defaults = {**DEFAULTS, "grace": max(DEFAULTS["grace"], eval_every)}
    usual = NONE if whole or (epochs <= defaults["grace"] and not begun) else DEFAULTS["scheduler"]
    chosen = {**defaults, "scheduler": usual, **asked}
    name, grace, reduction, stopping = (chosen[item] for item in DEFAULTS)
    found = []
    if name not in (NONE, *SCHEDULERS):
        found.append(f"unknown scheduler '{name}': {expected_one_of(name, (NONE, *SCHEDULERS))}")
    if grace < 1:
        found.append(f"--grace must be at least 1 epoch, got {grace}")
    if reduction < 2:
        found.append(f"--reduction must be at least 2, got {reduction}")
    if stopping not in MODES:
        found.append(f"unknown stopping '{stopping}': {expected_one_of(stopping, MODES)}")
    if name == NONE:
        further = [f"--{item}" for item in asked if item != "scheduler"]
        if further:
            found.append(f"{', '.join(further)}: without a scheduler no trial is compared; give --scheduler moasha")
    elif grace >= epochs:
        found.append(
            f"--grace {grace}: trials of {epochs} epochs are never compared; --scheduler {name} needs a grace below "
            f"--epochs, so that there is something to save"
        )
    elif eval_every > 0 and grace % eval_every:
        found.append(
            f"--grace {grace}: trials are compared after epochs that are evaluated; with --eval-every {eval_every} it "
            f"is a multiple of {eval_every}"
        )
    return chosen, found
