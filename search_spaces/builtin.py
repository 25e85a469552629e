"""The built-in search spaces: the default space, the paper's grid, and the grid of a learning-rate study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

from search_spaces.common.fields import LOG, LOG_TO_ONE, Field
from search_spaces.common.values import Value, plain_name
from search_spaces.parameters import Choice, Number, Parameter
from search_spaces.space import Space, SpaceError

T = TypeVar("T")
Methods = Mapping[str, Mapping[str, Field]]
"""The options of the methods, by method name and option key: ``{"npo+gdiff": {"npo.beta": ..., "gdiff.c": ...}}``."""
OptionValues = Mapping[str, Sequence[float]]
"""The values to try for each option key."""

LR_RANGE = (1e-5, 1e-3)
AUTO_START = "auto_lr.lr"
"""The key of the initial rate of automatic rates in a learning-rate study. Its plain name is ``lr``."""
_NONE: OptionValues = MappingProxyType({})

PAPER = "paper"
"""The name of the paper's grid on the command line."""
PAPER_LR = (1e-5, 5e-5, 1e-4)
PAPER_C = (0.9, 0.5, 0.1)
PAPER_RULES = ("off", "gen")
"""The values of ``auto_lr`` in the paper's tables: without and with AutoLR."""
PAPER_CONSTANTS: Mapping[str, Value] = MappingProxyType(
    {
        "epochs": 15,
        "optimizer": "adamw",
        "weight_decay": 0.0,
    }
)
"""The fixed settings of the paper's grid. The paper's Adam is AdamW without weight decay."""


def default_space(
    *,
    methods: Methods,
    lr: Sequence[float] = (),
    auto_lr: Sequence[str] = ("off",),
    settings: Sequence[Choice] = (),
    options: OptionValues = _NONE,
    lr_range: tuple[float, float] = LR_RANGE,
) -> Space:
    """Return the default space: the method, the rule of AutoLR, the rate, and every method option with a range.

    Args:
        lr: the learning rates to try, instead of ``lr_range``.
        auto_lr: the values to try of the setting ``auto_lr``.
        settings: the values to try of other settings.
        options: the values to try for method options, instead of their ranges.

    Raises:
        SpaceError: a range is empty, or two options with the same name can apply to the same trial.
    """
    parameters: list[Parameter] = [Choice("method", tuple(methods)), Choice("auto_lr", _unique(auto_lr)), *settings]
    parameters.append(Choice("lr", _unique(lr)) if lr else Number("lr", *lr_range, log=True))
    return _space(parameters + _option_parameters(methods, options))


def paper_space(
    *,
    methods: Methods,
    lr: Sequence[float] = (),
    auto_lr: Sequence[str] = ("off",),
    settings: Sequence[Choice] = (),
    options: OptionValues = _NONE,
    lr_range: tuple[float, float] = LR_RANGE,
) -> Space:
    """Return the paper's grid: three learning rates, three values of GDiff's c, and 15 epochs of Adam.

    The arguments ``lr`` and ``options`` replace values of the paper. The argument ``lr_range`` is not used.

    Raises:
        SpaceError: two options with the same name can apply to the same trial.
    """
    paper_values = {key: PAPER_C for fields in methods.values() for key in fields if plain_name(key) == "c"}
    values = {**paper_values, **options}
    searched_options: dict[str, dict[str, Field]] = {}
    for name, fields in methods.items():
        searched_options[name] = {key: field for key, field in fields.items() if key in values}
    space = default_space(
        methods=searched_options, lr=lr or PAPER_LR, auto_lr=auto_lr, settings=settings, options=values
    )
    return replace(space, constants={**PAPER_CONSTANTS, **space.constants})


SPACES: Mapping[str, Callable[..., Space]] = MappingProxyType({"default": default_space, PAPER: paper_space})
"""The functions that build the spaces, by the name of the space on the command line."""


def lr_study_space(
    *,
    methods: Methods,
    lr: Sequence[float],
    rules: Sequence[str],
    settings: Sequence[Choice] = (),
    start_lr: Sequence[float] = (),
    options: OptionValues = _NONE,
) -> Space:
    """Return the grid of a learning-rate study, in which trials use either a fixed learning rate or AutoLR.

    Args:
        lr: the fixed learning rates.
        rules: the rules of AutoLR to try.
        settings: the values to try of other settings.
        start_lr: the start rates of AutoLR; empty to use ``lr``.
        options: the values to try for method options.

    Raises:
        SpaceError: a list of values is empty, or two options with the same name can apply to the same trial.
    """
    parameters = [
        Choice("method", tuple(methods)),
        Choice("auto_lr", ("off", *_unique(rules))),
        *settings,
        Choice("lr", _unique(lr), when={"auto_lr": ("off",)}),
        Choice("lr", _unique(start_lr or lr), when={"auto_lr": _unique(rules)}, key=AUTO_START),
        *_option_parameters(methods, options, ranges=False),
    ]
    return _space(parameters)


def _option_parameters(methods: Methods, option_values: OptionValues, *, ranges: bool = True) -> list[Parameter]:
    """Return one parameter for each option with values in ``option_values`` or, if ``ranges`` is true, with a range."""
    params: list[Parameter] = []
    fields_by_key = {key: field for fields in methods.values() for key, field in fields.items()}
    for key, field in fields_by_key.items():
        method_names = tuple(name for name, fields in methods.items() if key in fields)
        when = {} if len(method_names) == len(methods) else {"method": method_names}
        if option_values.get(key):
            params.append(Choice(field.name, _unique(option_values[key]), when=when, key=key))
        elif ranges and (span := field.range) is not None:
            log = span.scale == LOG
            log_to_one = span.scale == LOG_TO_ONE
            params.append(Number(field.name, span.low, span.high, log=log, log_to_one=log_to_one, when=when, key=key))
    return params


def _space(parameters: Sequence[Parameter]) -> Space:
    space = Space.from_parameters(parameters)
    if problems := space.problems():
        raise SpaceError(problems)
    return space


def _unique(values: Sequence[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
