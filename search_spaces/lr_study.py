"""The grid of a learning-rate study: every method at every learning rate, and AutoLR beside it."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from search_spaces.builtin import Given, Methods, checked, foreign_options, option_parameters, unique
from search_spaces.fields import Field
from search_spaces.parameters import Choice
from search_spaces.space import Space
from search_spaces.values import Value

AUTO_START = "auto_lr.lr"
"""The key of the rates AutoLR starts from, which also sets ``lr``."""


def lr_study_space(
    *,
    methods: Methods,
    lr: Sequence[float],
    arms: Sequence[tuple[Field, Sequence[Value]]],
    start_lr: Sequence[float] = (),
    options: Given = MappingProxyType({}),
) -> Space:
    """A finite grid: methods x their options x ({fixed lr} and {AutoLR variant} x {start lr}).

    Args:
        methods: the methods and their options, as for :func:`search_spaces.builtin.default_space`.
        lr: the fixed learning rates.
        arms: AutoLR's settings with their values; each combination in which they have an effect is an arm of its own.
        start_lr: where AutoLR starts; by default at every fixed learning rate in turn.
        options: values of options by key; the others keep their defaults.

    Raises:
        SpaceError: an empty list, a value that is there twice, or an option that applies to none of the methods.
    """
    automatic = {"auto_lr": ("on",)}
    values_of = {item.name: values for item, values in arms}
    variants = [
        Choice(item.name, unique(values), when=item.when)
        for item, values in arms
        if all(set(needed) & set(values_of.get(name, needed)) for name, needed in item.when.items())
    ]
    parameters = [
        *(Choice("method", tuple(methods)), Choice("auto_lr", ("off", "on")), *variants),
        Choice("lr", unique(lr), when={"auto_lr": ("off",)}),
        Choice("lr", unique(start_lr or lr), when=automatic, key=AUTO_START),
        *option_parameters(methods, options, ranges=False),
    ]
    return checked(parameters, foreign_options(methods, options))
