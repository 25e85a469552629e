"""The space a sweep searches when nobody gives one: learning rate, AutoLR, and the options of the chosen methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from search_spaces.errors import SpaceError
from search_spaces.parameters import Choice, Float, Parameter
from search_spaces.space import Space
from search_spaces.values import Value, plain_name

AUTO_LR = ("off", "on", "both")
LR_RANGE = (1e-5, 1e-3)

LINEAR, LOG, LOG_TO_ONE = "linear", "log", "log to one"
"""Scales: uniform in x, in log x, in log(1 - x)."""


@dataclass(frozen=True, slots=True)
class Range:
    """Where an option is searched, and why there."""

    low: float
    high: float
    scale: str
    source: str

    def parameter(self, key: str, when: Mapping[str, tuple[Value, ...]]) -> Float:
        """The range as a parameter for the option ``key``."""
        return Float(
            plain_name(key),
            self.low,
            self.high,
            log=self.scale == LOG,
            log_to_one=self.scale == LOG_TO_ONE,
            when=when,
            key=key,
        )


OPTION_RANGES: Mapping[str, Range] = MappingProxyType(
    {
        "gdiff.c": Range(0.1, 0.995, LOG_TO_ONE, "the paper: 0.1, 0.5, 0.9; fine near 1, see below"),
        "npo.beta": Range(0.01, 1.0, LOG, "NPO (arXiv:2404.05868): 0.1 throughout; a decade to either side"),
        "simnpo.beta": Range(2.5, 5.5, LINEAR, "SimNPO (arXiv:2410.07163): 2.5 and 4.5 for TOFU, 5.5 for WMDP"),
        "simnpo.delta": Range(0.0, 2.0, LINEAR, "SimNPO's gamma/beta, in nats per token; 0 in its released models"),
        "dpo.beta": Range(0.01, 1.0, LOG, "as npo.beta, the same loss with a preferred answer"),
        "wga.beta": Range(0.1, 5.0, LOG, "OpenUnlearning's default 1; 0 would be gradient ascent"),
        "satimp.beta1": Range(0.3, 10.0, LOG, "SatImp (arXiv:2505.11953), released settings: 0.3 and 5"),
        "satimp.beta2": Range(0.1, 3.0, LOG, "SatImp (arXiv:2505.11953), released settings: 0.3 and 1"),
        "undial.beta": Range(1.0, 30.0, LOG, "UNDIAL (arXiv:2402.10052): 3, 10 and 30"),
        "cagrad.alpha": Range(0.1, 0.9, LINEAR, "CAGrad (arXiv:2110.14048): 0.1 to 0.9; converges below 1"),
        "gradnorm.alpha": Range(0.5, 3.0, LINEAR, "GradNorm (arXiv:1711.02257): 1.5; gains for every value in (0, 3)"),
        "graddrop.leak": Range(0.0, 0.9, LINEAR, "GradDrop (arXiv:2010.06808): a leak from 0 to 1; 1 is the sum"),
        "rotograd.rate": Range(0.01, 1.0, LOG, "RotoGrad (arXiv:2103.02631): rotations learn slower than the model"),
        "gradvac.ema_beta": Range(1e-3, 0.5, LOG, "GradVac (arXiv:2010.05874): 0.01"),
        "rmu.scale": Range(1.0, 300.0, LOG, "RMU (arXiv:2403.03218): 6.5 to 300, with the size of hidden states"),
    }
)
"""By option key. An option without a range keeps its default: rmu.layer, for one, depends on the model's depth.

The retain loss of memorised data is small and its gradient weak, so that GDiff trades one loss for the other close to
c = 1: for a small Phi that had memorised TOFU's forget01, between 0.7 and 0.99 at lr 1e-4 and above 0.95 at 3e-4; below
that the forget loss is past a random guess and only the retain loss still grows. Hence c is searched uniformly in
log(1 - c), half of it above 0.93, down to the paper's 0.1.
"""


def default_space(
    *,
    methods: Mapping[str, tuple[str, ...]],
    c: Sequence[float] = (),
    lr: Sequence[float] = (),
    auto_lr: str = "off",
    options: Mapping[str, Sequence[float]] = MappingProxyType({}),
    lr_range: tuple[float, float] = LR_RANGE,
) -> Space:
    """The space over some methods, the learning rate, AutoLR, and the methods' options.

    Args:
        methods: each method's name with the keys of the options that apply to it, ``{"npo+gdiff": ("npo.beta",
            "gdiff.c")}``.
        c: values of c (of any option whose plain name is c) in place of its range.
        lr: learning rates in place of the range. Under AutoLR they are where it starts.
        auto_lr: ``off``, ``on``, or ``both`` to search over the two.
        options: values of other options by key, in place of their ranges.
        lr_range: where the learning rate is searched, on a logarithmic scale.

    Raises:
        SpaceError: no methods, values for an option that applies to none of them, an empty range, or an unknown
            ``auto_lr``; with all problems at once.
    """
    problems = [] if methods else ["a search space needs at least one method"]
    if auto_lr not in AUTO_LR:
        problems.append(f"auto_lr must be one of {', '.join(AUTO_LR)}, got '{auto_lr}'")
    keys = dict.fromkeys(key for applying in methods.values() for key in applying)
    given = {key: tuple(values) for key, values in options.items() if values}
    if c:
        with_c = [key for key in keys if plain_name(key) == "c"]
        given |= dict.fromkeys(with_c, tuple(c))
        if not with_c:
            problems.append(f"c applies to none of the methods {', '.join(methods)}")
    problems += [
        f"option {key} applies to none of the methods {', '.join(methods)}" for key in given if key not in keys
    ]
    parameters: list[Parameter] = [Choice("method", tuple(methods))]
    parameters.append(Choice("auto_lr", ("off", "on") if auto_lr == "both" else (auto_lr,)))
    parameters.append(Choice("lr", unique(lr)) if lr else Float("lr", *lr_range, log=True))
    for key in keys:
        having = tuple(method for method, applying in methods.items() if key in applying)
        when = {} if len(having) == len(methods) else {"method": having}
        if key in given:
            parameters.append(Choice(plain_name(key), unique(given[key]), when=when, key=key))
        elif key in OPTION_RANGES:
            parameters.append(OPTION_RANGES[key].parameter(key, when))
    space = Space.of(parameters)
    problems += space.problems() if methods else []
    if problems:
        raise SpaceError(problems)
    return space


def unique(values: Sequence[float]) -> tuple[float, ...]:
    """The values in order, repetitions left out."""
    return tuple(dict.fromkeys(values))
