"""The spaces that have a name on the command line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from search_spaces.builtin import LR_RANGE, default_space
from search_spaces.errors import SpaceError
from search_spaces.paper import paper_space
from search_spaces.space import Space

SPACES: Mapping[str, str] = MappingProxyType(
    {
        "default": "ranges for the learning rate and every option of the methods with a known useful range",
        "paper": "the paper's grid: lr 1e-5, 5e-5, 1e-4; c 0.9, 0.5, 0.1; 15 epochs",
    }
)
"""Every name with a description."""


def named_space(
    name: str,
    *,
    methods: Mapping[str, tuple[str, ...]],
    c: Sequence[float] = (),
    lr: Sequence[float] = (),
    auto_lr: str = "off",
    options: Mapping[str, Sequence[float]] = MappingProxyType({}),
    lr_range: tuple[float, float] = LR_RANGE,
) -> Space:
    """The space called ``name`` for these methods; values that are given replace its own.

    The arguments are those of :func:`search_spaces.builtin.default_space`; the paper's grid does not use ``lr_range``.

    Raises:
        SpaceError: unknown name, or what is given does not fit the methods.
    """
    if name == "default":
        return default_space(methods=methods, c=c, lr=lr, auto_lr=auto_lr, options=options, lr_range=lr_range)
    if name == "paper":
        return paper_space(methods, c=c, lr=lr, auto_lr=auto_lr, options=options)
    raise SpaceError([f"unknown search space '{name}': expected one of {', '.join(SPACES)}"])
