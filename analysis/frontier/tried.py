"""The settings that were tried with one method: what to try next follows from them."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.frontier.choice import Choice
from analysis.frontier.criterion import Role
from analysis.tables.trial_table import auto_lr_on, numbers


@dataclass(frozen=True, slots=True)
class Tried:
    """The settings of the models of one method, and the learning rates between which the models change.

    Attributes:
        lr, c: the smallest and the largest value; None without values, for example because the method has no ``c``.
        epochs: all values, in ascending order.
        too_low: the highest learning rate at which a model keeps enough but forgets too little; None without such a
            model. Rates that a rule chose do not count.
        too_high: the lowest learning rate at which a model forgets enough but keeps too little.
        diverged_lr: the lowest learning rate at which a trial diverged, if it is above all rates of ``lr``.
        auto_lr: whether a rule chose the learning rate of a model.
    """

    method: str = ""
    lr: tuple[float, float] | None = None
    c: tuple[float, float] | None = None
    epochs: tuple[float, ...] = ()
    too_low: float | None = None
    too_high: float | None = None
    diverged_lr: float | None = None
    auto_lr: bool = False

    @property
    def has_gap(self) -> bool:
        """Whether models forget too little up to one rate and keep too little from a higher rate on."""
        return self.too_low is not None and self.too_high is not None and self.too_low < self.too_high

    @property
    def middle(self) -> float:
        """The geometric mean of the rates of the gap."""
        assert self.too_low is not None
        assert self.too_high is not None
        return float(f"{(self.too_low * self.too_high) ** 0.5:.1g}")


def tried_settings(choice: Choice, diverged: pd.DataFrame) -> Tried:
    """Return the settings that were tried with the method of the chosen model."""
    if choice.row is None:
        return Tried()
    method = str(choice.row["method"])
    is_own = (choice.rows["method"] == method).to_numpy()
    rows, other = choice.rows[is_own], diverged[diverged["method"] == method]
    forgets, keeps = (~choice.judged.misses(role)[is_own] for role in (Role.FORGET, Role.KEEP))
    is_fixed = ~auto_lr_on(rows).to_numpy(dtype=bool)
    rates = numbers(rows, "lr")
    too_low, too_high = rates[keeps & ~forgets & is_fixed].max(), rates[forgets & ~keeps & is_fixed].min()
    lr, lowest_diverged = _range(rates), numbers(other, "lr").min()
    return Tried(
        method=method,
        lr=lr,
        c=_range(numbers(rows, "c")),
        epochs=tuple(sorted(set(numbers(rows, "epochs").dropna()))),
        too_low=None if pd.isna(too_low) else float(too_low),
        too_high=None if pd.isna(too_high) else float(too_high),
        diverged_lr=float(lowest_diverged) if lr is not None and lowest_diverged > lr[1] else None,
        auto_lr=not is_fixed.all(),
    )


def _range(values: pd.Series) -> tuple[float, float] | None:
    known = values.dropna()
    return (float(known.min()), float(known.max())) if len(known) else None
