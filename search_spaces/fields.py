"""What a setting of a trial may be and what it is for, said once: a field of the trial's spec, an option of a method.

The command line's options, the checks of a spec, the names and types of a space file and the columns of a table are
read from such descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from search_spaces.messages import expected_one_of

Role = Literal["method", "training", "auto_lr", "data", "scoring", "placement"]
"""What a setting of a trial is about; ``placement`` fields are paths on this machine."""
Scope = Literal["trial", "search", "placement", "tracking", "study", "command"]
"""What a setting belongs to: a trial, or a sweep's search, resources, MLflow, learning-rate study; or one command."""

LINEAR, LOG, LOG_TO_ONE = "linear", "log", "log to one"
"""Scales: uniform in x, in log x, in log(1 - x)."""

KIND_NAMES: Mapping[type, str] = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
SWITCHES: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class Range:
    """Where a setting is searched when nobody says where, and why there."""

    low: float
    high: float
    scale: str
    source: str


@dataclass(frozen=True, slots=True)
class Field:
    """One setting.

    Attributes:
        name: what it is called in a configuration and in the tables.
        default: its value where none is given; ``otherwise`` says what that amounts to where it is no plain value.
        help: what it is, for the command line and the lists.
        label, unit: the name on an axis, and what its numbers count, if anything.
        kind: the type of its values, ``many`` says that there are several; ``optional`` that None is one, too.
        low, high: the closed interval of a number, infinite ends apart; with ``above`` it is open below.
        choices: all values a text may have, or a function that knows them; empty where there is no such list.
        words: words that stand for other values on the command line, such as ``none`` for 0.
        role: what it is about.
        scope: what it belongs to.
        commands: the commands that have it as an option.
        repeats: whether the option may be given several times.
        changeable: its help for ``resume``; empty if resume cannot change it.
        is_path: whether its value is a path.
        metavar: how ``--help`` shows its value; empty for the usual form.
        flag: its option on the command line; empty where it has none.
        decides: whether it may change the result, so that it is part of a trial's hash.
        when: other fields, each with the values under which this one has an effect.
        fixed: why it cannot vary within a sweep, as a clause; empty where it can.
        range: where it is searched when nobody says where.
    """

    name: str
    default: Any
    help: str
    _: KW_ONLY
    kind: type = float
    many: bool = False
    optional: bool = False
    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    choices: Collection[str] | Callable[[], Collection[str]] = ()
    words: Mapping[str, Any] = field(default_factory=dict, hash=False)
    role: Role = "method"
    scope: Scope = "trial"
    commands: tuple[str, ...] = ()
    repeats: bool = False
    changeable: str = ""
    is_path: bool = False
    metavar: str = ""
    otherwise: str = ""
    label: str = ""
    unit: str = ""
    flag: str = ""
    decides: bool = True
    when: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    fixed: str = ""
    range: Range | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name.replace("_", " "))

    def searched(self, low: float, high: float, scale: str, source: str) -> Field:
        """The same field with a :class:`Range`."""
        return replace(self, range=Range(low, high, scale, source))

    @property
    def title(self) -> str:
        """Its name in a message: a trial's field with its option if that is spelled otherwise, else the option."""
        if self.scope != "trial":
            return self.flag
        usual = self.flag in ("", f"--{self.name.replace('_', '-')}")
        return self.name if usual else f"{self.name} ({self.flag})"

    @property
    def kind_name(self) -> str:
        """What its values are, in words."""
        return "names" if self.many else KIND_NAMES[self.kind] + (" or null" if self.optional else "")

    @property
    def allowed(self) -> Collection[str]:
        """The choices, empty where there is no list of them."""
        return self.choices() if callable(self.choices) else self.choices

    def has_effect(self, values: Mapping[str, object]) -> bool:
        """Whether it has an effect beside these values of other fields."""
        return all(values[name] in expected for name, expected in self.when.items())

    def typed(self, value: Any) -> Any:
        """A value it may have, in the type it has: 5.0 is the whole number 5, 1 the number 1.0."""
        if value is None:
            return None
        return tuple(map(self.kind, value)) if self.many else self.kind(value)

    def read(self, value: object) -> Any:
        """Return what a text of the command line or a file, or a keyword's value, stands for.

        Raises:
            ValueError: it is not a value of this kind; the message names the option.
        """
        text = str(value)
        option = self.flag or self.name
        if self.kind is bool:
            if text.lower() not in SWITCHES:
                raise ValueError(f"{option} must be true or false, got {text}")
            return SWITCHES[text.lower()]
        if self.many:
            names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
            if not names:
                raise ValueError(f"{option} needs at least one name; see 'python -m sweeper list {self.name}'")
            return names
        parts = text.replace(",", " ").split()
        each = f"; a sweep takes several as {' '.join(f'{option} {part}' for part in parts)}"
        hint = each if self.repeats and len(parts) > 1 else ""
        if self.kind is str:
            if hint and self.scope == "trial":
                raise ValueError(f"{option} takes one name at a time, got '{text}'{hint}")
            return text
        try:
            return self.words[text] if text in self.words else self.kind(text)
        except ValueError:
            kind = " or ".join((KIND_NAMES[self.kind], *self.words))
            raise ValueError(f"{option} must be {kind}, got '{text}'{hint}") from None

    def fits(self, value: object) -> bool:
        """Whether a value is of its kind; True is no number, and a whole number may be written 5.0."""
        if value is None:
            return self.optional
        if self.many:
            return isinstance(value, tuple) and all(isinstance(item, self.kind) for item in value)
        if self.kind in (int, float):
            return isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, self.kind)

    def problem(self, value: object) -> str | None:
        """A plain sentence saying what is wrong with ``value``, or None."""
        if (value is None and self.optional) or (isinstance(value, str) and value in self.words.values()):
            return None
        if self.allowed and not (isinstance(value, str) and value in self.allowed):
            return f"unknown {self.name} '{value}': {expected_one_of(str(value), self.allowed)}"
        if not self.fits(value):
            return f"{self.title} must be {self.kind_name}, got {shown(value)}"
        if isinstance(value, int | float) and self.kind is not bool:
            if not (math.isfinite(value) and self.low <= value <= self.high and self.above < value):
                return f"{self.title} must be {self._expected}, got {shown(value)}"
            if self.kind is int and value != int(value):
                return f"{self.title} must be a whole number, got {shown(value)}"
        return None

    @property
    def least(self) -> float:
        """The lower end of the interval, whether it is part of it or not."""
        return max(self.low, self.above)

    @property
    def _expected(self) -> str:
        is_open = self.above > self.low
        if math.isfinite(self.high):
            return f"in {']' if is_open else '['}{shown(self.least)}, {shown(self.high)}]"
        if self.kind is int:
            return f"at least {shown(self.low)} {self.unit}".rstrip()
        if math.isinf(self.least):
            return "a finite number"
        return f"a finite number{' greater than' if is_open else ', at least'} {shown(self.least)}"


def shown(value: object) -> str:
    """A value in a message."""
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else repr(value)


def defaults(described: Iterable[Field]) -> dict[str, Any]:
    """The default of every field, by name."""
    return {item.name: item.default for item in described}
