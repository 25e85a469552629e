"""The grid of a learning-rate study: every method at every learning rate, and AutoLR beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from search_spaces.builtin import unique
from search_spaces.errors import SpaceError
from search_spaces.parameters import Choice, Parameter
from search_spaces.space import Space
from search_spaces.values import plain_name

AUTO_START = "auto_lr.lr"
"""The key of the rates AutoLR starts from, which also sets ``lr``."""


def lr_study_space(
    *,
    methods: Mapping[str, tuple[str, ...]],
    lr: Sequence[float],
    smoothings: Sequence[str],
    probes: Sequence[str],
    probe_batches: Sequence[int] = (4,),
    start_lr: Sequence[float] = (),
    options: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Space:
    """A finite grid: methods x their options x ({fixed lr} and {AutoLR variant} x {start lr}).

    Args:
        methods: each method's name with the keys of its options, as for
            :func:`search_spaces.builtin.default_space`.
        lr: the fixed learning rates.
        smoothings, probes: AutoLR's variants, each combination an arm of its own.
        probe_batches: how many retain batches a fresh probe averages over, each an arm; other probes use one.
        start_lr: where AutoLR starts; by default at every fixed learning rate in turn.
        options: values of options by key; the others keep their defaults.

    Raises:
        SpaceError: an empty list, a value that is there twice, or an option that applies to none of the methods.
    """
    keys = dict.fromkeys(key for applying in methods.values() for key in applying)
    problems = [
        f"option {key} applies to none of the methods {', '.join(methods)}" for key in options if key not in keys
    ]
    automatic = {"auto_lr": ("on",)}
    parameters: list[Parameter] = [
        Choice("method", tuple(methods)),
        Choice("auto_lr", ("off", "on")),
        Choice("auto_lr_smoothing", tuple(dict.fromkeys(smoothings)), when=automatic),
        Choice("auto_lr_probe", tuple(dict.fromkeys(probes)), when=automatic),
        *_batches(probes, probe_batches),
        Choice("lr", unique(lr), when={"auto_lr": ("off",)}),
        Choice("lr", unique(start_lr or lr), when=automatic, key=AUTO_START),
    ]
    for key, values in options.items():
        having = tuple(method for method, applying in methods.items() if key in applying)
        when = {} if len(having) == len(methods) else {"method": having}
        if having:
            parameters.append(Choice(plain_name(key), unique(values), when=when, key=key))
    space = Space.of(parameters)
    problems += space.problems()
    if problems:
        raise SpaceError(problems)
    return space


def _batches(probes: Sequence[str], probe_batches: Sequence[int]) -> list[Parameter]:
    if "fresh" not in probes:
        return []
    fresh = {"auto_lr": ("on",), "auto_lr_probe": ("fresh",)}
    return [Choice("auto_lr_probe_batches", tuple(dict.fromkeys(probe_batches)), when=fresh)]
