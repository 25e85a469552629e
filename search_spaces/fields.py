"""Describe settings: fields of a trial's spec, and options of a method.

Command-line options, the checks of a spec, the names and types of space files and the columns of tables are derived
from these descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from search_spaces.messages import expected_one_of

Role = Literal["method", "training", "auto_lr", "data", "scoring", "placement"]
"""The subject of a setting; ``placement`` is about locations on this machine."""
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
    """The default search range of a setting, and its source."""

    low: float
    high: float
    scale: str
    source: str


@dataclass(frozen=True, slots=True)
class Field:
    """One setting.

    Attributes:
        name: the name in a configuration and in tables.
        default: the value if none is given; ``otherwise`` describes a default that is not a plain value.
        help: the description for the command line and lists.
        label, unit: the name on an axis, and the unit of its numbers, if any.
        kind: the type of its values; ``many`` allows several values, ``optional`` allows None.
        low, high: the closed interval of a number, except infinite ends; with ``above`` it is open below.
        choices: all values of a text, or a function that returns them; empty if any text is allowed.
        words: words for other values on the command line, such as ``none`` for 0.
        role: the subject.
        scope: the part of a sweep that the setting belongs to.
        commands: the commands that have the setting as an option.
        repeats: whether the option may be given several times.
        changeable: its help for ``resume``; empty if resume cannot change it.
        is_path: whether its value is a path.
        metavar: the form of its value in ``--help``; empty for the usual form.
        flag: the command-line option; empty if there is none.
        decides: whether it may change the result, so that it is part of a trial's hash.
        when: other fields, each with the values under which this field has an effect.
        fixed: why it cannot vary within a sweep, as a clause; empty if it can.
        range: the default search range.
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
        """Return the same field with a :class:`Range`."""
        return replace(self, range=Range(low, high, scale, source))

    @property
    def title(self) -> str:
        """The name in messages: a trial's field, with its option if the spelling differs; otherwise the option."""
        if self.scope != "trial":
            return self.flag
        usual = self.flag in ("", f"--{self.name.replace('_', '-')}")
        return self.name if usual else f"{self.name} ({self.flag})"

    @property
    def kind_name(self) -> str:
        """The type of its values in words."""
        return "names" if self.many else KIND_NAMES[self.kind] + (" or null" if self.optional else "")

    @property
    def allowed(self) -> Collection[str]:
        """The choices; empty if any value is allowed."""
        return self.choices() if callable(self.choices) else self.choices

    def has_effect(self, values: Mapping[str, object]) -> bool:
        """Return whether it has an effect with these values of other fields."""
        return all(values[name] in expected for name, expected in self.when.items())

    def typed(self, value: Any) -> Any:
        """Return a valid value in the field's type: 5.0 becomes the integer 5, 1 the float 1.0."""
        if value is None:
            return None
        return tuple(map(self.kind, value)) if self.many else self.kind(value)

    def read(self, value: object) -> Any:
        """Convert a text from the command line or a file, or a keyword argument, to a value.

        Raises:
            ValueError: the text is not a value of this kind; the message names the option.
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
        """Return whether a value has the field's type; True is not a number, and an integer may be written 5.0."""
        if value is None:
            return self.optional
        if self.many:
            return isinstance(value, tuple) and all(isinstance(item, self.kind) for item in value)
        if self.kind in (int, float):
            return isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, self.kind)

    def problem(self, value: object) -> str | None:
        """Return the problem with ``value``, or None."""
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
        """The lower end of the interval, whether inclusive or not."""
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
    """Return a value as shown in messages."""
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else repr(value)


def defaults(described: Iterable[Field]) -> dict[str, Any]:
    """Return the default of every field, by name."""
    return {item.name: item.default for item in described}
