"""The built-in search spaces: the default, the grid of the paper's experiments, and the grid of a learning-rate study.
The built-in search spaces: the default, the grid of the paper's experiments, and the grid of a learning-rate study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from search_spaces.fields import LOG, LOG_TO_ONE, Field
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space, SpaceError
from search_spaces.values import Value, plain_name

T = TypeVar("T")
Methods = Mapping[str, Mapping[str, Field]]
"""Methods by name, with the options that apply by key: ``{"npo+gdiff": {"npo.beta": ..., "gdiff.c": ...}}``"""
Given = Mapping[str, Sequence[float]]
"""Values of options by key."""

AUTO_LR = ("off", "on", "both")
LR_RANGE = (1e-5, 1e-3)
AUTO_START = "auto_lr.lr"
"""The key of AutoLR's start rates in a study; it also sets ``lr``."""
_NONE: Given = MappingProxyType({})

PAPER_LR = (1e-5, 5e-5, 1e-4)
PAPER_C = (0.9, 0.5, 0.1)
PAPER_CONSTANTS: Mapping[str, Value] = MappingProxyType(
    {
        "epochs": 15,
        "optimizer": "adamw",
        "weight_decay": 0.0,
        "auto_lr_smoothing": "paper",
        "auto_lr_probe": "same",
        "auto_lr_every": 10,
    }
)
"""The paper's Adam is AdamW without weight decay; its AutoLR uses ``eta*`` of the step's own batch directly."""


def default_space(
    *,
    methods: Methods,
    lr: Sequence[float] = (),
    auto_lr: str = "off",
    options: Given = _NONE,
    lr_range: tuple[float, float] = LR_RANGE,
) -> Space:
    """Return the space over methods, the learning rate, AutoLR, and the methods' options that have a range.

    Args:
        methods: the methods and their options.
        lr: learning rates that replace the range; with AutoLR, its start rates.
        auto_lr: ``off``, ``on``, or ``both`` to search over the two.
        options: values of options that replace their ranges.
        lr_range: the range of the learning rate, on a logarithmic scale.

    Raises:
        SpaceError: no methods, values for an option that applies to none of them, an empty range, or an unknown
            ``auto_lr``; all problems at once.
    """
    problems = [] if methods else ["a search space needs at least one method"]
    if auto_lr not in AUTO_LR:
        problems.append(f"auto_lr must be one of {', '.join(AUTO_LR)}, got '{auto_lr}'")
    parameters: list[Parameter] = [Choice("method", tuple(methods))]
    parameters.append(Choice("auto_lr", ("off", "on") if auto_lr == "both" else (auto_lr,)))
    parameters.append(Choice("lr", _unique(lr)) if lr else Number("lr", *lr_range, log=True))
    return _checked(parameters + _option_parameters(methods, options), methods, options, problems)


def paper_space(
    *,
    methods: Methods,
    lr: Sequence[float] = (),
    auto_lr: str = "off",
    options: Given = _NONE,
    lr_range: tuple[float, float] = LR_RANGE,
) -> Space:
    """Return the grid of learning rates 1e-5, 5e-5 and 1e-4, GDiff-0.9, -0.5 and -0.1, with 15 epochs of Adam.

    Options other than c keep their defaults, as in the paper, unless ``options`` lists values for them; given values
    replace the paper's. The arguments are those of :func:`default_space`; ``lr_range`` is not used.

    Raises:
        SpaceError: as :func:`default_space` does.
    """
    of_paper = {key: PAPER_C for applying in methods.values() for key in applying if plain_name(key) == "c"}
    fixed = {**of_paper, **options}
    listed = {name: {key: item for key, item in own.items() if key in fixed} for name, own in methods.items()}
    space = default_space(methods=listed, lr=lr or PAPER_LR, auto_lr=auto_lr, options=fixed)
    return replace(space, constants={**PAPER_CONSTANTS, **space.constants})


SPACES: Mapping[str, Callable[..., Space]] = MappingProxyType({"default": default_space, "paper": paper_space})
"""The spaces by their names on the command line."""


def lr_study_space(
    *,
    methods: Methods,
    lr: Sequence[float],
    arms: Sequence[tuple[Field, Sequence[Value]]],
    start_lr: Sequence[float] = (),
    options: Given = _NONE,
) -> Space:
    """Return the grid of a learning-rate study: methods x their options x ({fixed lr} and {AutoLR variant} x {start
    lr}).

    Args:
        methods: as for :func:`default_space`.
        lr: the fixed learning rates.
        arms: AutoLR's settings with their values; each combination with an effect is an arm.
        start_lr: AutoLR's start rates; by default the fixed learning rates.
        options: values of options by key; the others keep their defaults.

    Raises:
        SpaceError: an empty list, a duplicate value, or an option that applies to none of the methods.
    """
    values_of = {item.name: values for item, values in arms}
    variants = [
        Choice(item.name, _unique(values), when=item.when)
        for item, values in arms
        if all(set(needed) & set(values_of.get(name, needed)) for name, needed in item.when.items())
    ]
    parameters = [
        *(Choice("method", tuple(methods)), Choice("auto_lr", ("off", "on")), *variants),
        Choice("lr", _unique(lr), when={"auto_lr": ("off",)}),
        Choice("lr", _unique(start_lr or lr), when={"auto_lr": ("on",)}, key=AUTO_START),
        *_option_parameters(methods, options, ranges=False),
    ]
    return _checked(parameters, methods, options)


def _option_parameters(methods: Methods, given: Given, *, ranges: bool = True) -> list[Parameter]:
    """Return the methods' options with the given values, or with ``ranges`` their range, each conditional on its
    methods."""
    found: list[Parameter] = []
    for key, item in {key: item for applying in methods.values() for key, item in applying.items()}.items():
        having = tuple(name for name, applying in methods.items() if key in applying)
        when = {} if len(having) == len(methods) else {"method": having}
        if given.get(key):
            found.append(Choice(item.name, _unique(given[key]), when=when, key=key))
        elif ranges and (at := item.range) is not None:
            log, log_to_one = at.scale == LOG, at.scale == LOG_TO_ONE
            found.append(Number(item.name, at.low, at.high, log=log, log_to_one=log_to_one, when=when, key=key))
    return found


def _checked(parameters: Sequence[Parameter], methods: Methods, given: Given, problems: Sequence[str] = ()) -> Space:
    """Return the space of these parameters; raise :class:`SpaceError` with all problems, including the given ones."""
    space = Space.of(parameters)
    unused = [
        f"option {key} applies to none of the methods {', '.join(methods)}"
        for key, values in given.items()
        if values and not any(key in applying for applying in methods.values())
    ]
    if found := [*problems, *unused, *space.problems()]:
        raise SpaceError(found)
    return space


def _unique(values: Sequence[T]) -> tuple[T, ...]:
    """Return the values in order, without duplicates."""
    return tuple(dict.fromkeys(values))
