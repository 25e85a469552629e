"""The grids of the paper's experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from search_spaces.builtin import default_space
from search_spaces.space import Space
from search_spaces.values import Value, plain_name

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
"""The paper's Adam is AdamW without weight decay; its AutoLR jumps to ``eta*`` of the batch it steps on."""


def paper_space(
    methods: Mapping[str, tuple[str, ...]],
    *,
    c: Sequence[float] = (),
    lr: Sequence[float] = (),
    auto_lr: str = "off",
    options: Mapping[str, Sequence[float]] = MappingProxyType({}),
) -> Space:
    """The learning rates 1e-5, 5e-5 and 1e-4, GDiff-0.9, -0.5 and -0.1, 15 epochs of Adam; a finite grid.

    Options other than c keep their defaults, as in the paper, unless ``options`` lists values for them; ``c`` and
    ``lr`` replace the paper's. The arguments are those of :func:`search_spaces.builtin.default_space`.

    Raises:
        SpaceError: as there.
    """
    searched = {
        method: tuple(key for key in keys if plain_name(key) == "c" or key in options)
        for method, keys in methods.items()
    }
    has_c = any(plain_name(key) == "c" for keys in searched.values() for key in keys)
    given_c = c or (PAPER_C if has_c else ())
    space = default_space(methods=searched, c=given_c, lr=lr or PAPER_LR, auto_lr=auto_lr, options=options)
    return replace(space, constants={**PAPER_CONSTANTS, **space.constants})
