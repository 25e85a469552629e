"""Descriptions of settings: the fields of a trial, and the options of a method.

Command-line options, checks of trials, space files and tables are derived from the descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from search_spaces.common.messages import expected_one_of

Role = Literal["method", "training", "auto_lr", "data", "scoring", "attack", "placement"]
"""What a setting describes. A setting with the role ``placement`` is a location on this machine."""
Scope = Literal["trial", "command"]
"""``trial`` for a field of a trial; ``command`` for an option of a command."""

LINEAR, LOG, LOG_TO_ONE = "linear", "log", "log to one"
"""The scales of sampling: uniform in x, in log x, or in log(1 - x)."""

KIND_NAMES: Mapping[type, str] = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
SWITCHES: Mapping[str, bool] = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Range:
    """The default search range of a setting, with the source of the range."""

    low: float
    high: float
    scale: str
    source: str


@dataclass(frozen=True, slots=True)
class Field:
    """One setting.

    Attributes:
        name: the name in a configuration and in tables.
        help: the description in ``--help`` and in lists.
        label: the name on the axis of a plot.
        kind: the type of the value. If ``many`` is true, the value is a sequence, and this is the type of its elements.
        optional: whether None is allowed.
        low, high: the closed interval of allowed numbers. Infinity is never allowed.
        above: allowed numbers are greater than this number.
        choices: the allowed texts, or a function that returns the texts; empty if any text is allowed.
        words: maps words on the command line and in space files to values, such as ``none`` to 0.
        hints: maps texts that are not allowed to what the message recommends instead.
        repeats: whether the option may be given several times.
        otherwise: the text that ``--help`` shows instead of ``default``.
        flag: the command-line option; empty if the setting has none.
        decides: whether the setting can change the result. A trial's hash contains only such settings.
        when: maps names of other fields to the values with which this setting has an effect.
        fixed: the reason why the setting cannot vary within a sweep, as a clause; empty if it can vary.
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
    hints: Mapping[str, str] = field(default_factory=dict, hash=False)
    role: Role = "method"
    scope: Scope = "trial"
    repeats: bool = False
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
        """Return a copy of the field with a default search range."""
        return replace(self, range=Range(low, high, scale, source))

    @property
    def title(self) -> str:
        """The setting's name in messages."""
        if self.scope != "trial":
            return self.flag
        is_default_flag = self.flag in ("", f"--{self.name.replace('_', '-')}")
        return self.name if is_default_flag else f"{self.name} ({self.flag})"

    @property
    def kind_name(self) -> str:
        """The type of the values, in words."""
        suffix = " or null" if self.optional else ""
        return "names" if self.many else f"{KIND_NAMES[self.kind]}{suffix}"

    @property
    def allowed(self) -> Collection[str]:
        """The allowed texts; empty if any text is allowed."""
        return self.choices() if callable(self.choices) else self.choices

    def has_effect(self, values: Mapping[str, object]) -> bool:
        """Return whether the setting has an effect, given the values of the other fields."""
        return all(values[name] in expected for name, expected in self.when.items())

    def convert(self, value: Any) -> Any:
        """Convert a valid value to the field's type, such as 5.0 to the integer 5."""
        if value is None:
            return None
        return tuple(map(self.kind, value)) if self.many else self.kind(value)

    def read(self, value: object) -> Any:
        """Convert a keyword argument or a text to a value of the field.

        Raises:
            ValueError: the text is not a value of the field's type.
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
        hint = ""
        if self.repeats and len(parts) > 1:
            repeated_option = " ".join(f"{option} {part}" for part in parts)
            hint = f"; to give a sweep several values, write {repeated_option}"
        if self.kind is str:
            if hint and self.scope == "trial":
                raise ValueError(f"{option} takes one name at a time, got '{text}'{hint}")
            return self.words.get(text, text)
        try:
            return self.words[text] if text in self.words else self.kind(text)
        except ValueError:
            expected = " or ".join([KIND_NAMES[self.kind], *self.words])
            raise ValueError(f"{option} must be {expected}, got '{text}'{hint}") from None

    def fits(self, value: object) -> bool:
        """Return whether a value has the field's type. Integers and floats fit a number field; booleans do not."""
        if value is None:
            return self.optional
        if self.many:
            return isinstance(value, tuple) and all(isinstance(item, self.kind) for item in value)
        if self.kind in (int, float):
            return isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, self.kind)

    def problem(self, value: object) -> str | None:
        """Return a message if a value is not valid, otherwise None."""
        is_null = value is None and self.optional
        is_word = isinstance(value, str) and value in self.words.values()
        if is_null or is_word:
            return None
        if self.allowed and not (isinstance(value, str) and value in self.allowed):
            hint = self.hints.get(str(value)) or expected_one_of(str(value), self.allowed)
            return f"unknown {self.name} '{value}': {hint}"
        if not self.fits(value):
            return f"{self.title} must be {self.kind_name}, got {format_value(value)}"
        if isinstance(value, int | float) and self.kind is not bool:
            is_in_range = math.isfinite(value) and self.low <= value <= self.high and value > self.above
            if not is_in_range:
                return f"{self.title} must be {self._expected}, got {format_value(value)}"
            if self.kind is int and value != int(value):
                return f"{self.title} must be a whole number, got {format_value(value)}"
        return None

    @property
    def lower_bound(self) -> float:
        """The lower bound of allowed numbers."""
        return max(self.low, self.above)

    @property
    def _expected(self) -> str:
        is_open = self.above > self.low
        if math.isfinite(self.high):
            bracket = "(" if is_open else "["
            return f"in {bracket}{format_value(self.lower_bound)}, {format_value(self.high)}]"
        if self.kind is int:
            return f"at least {format_value(self.low)} {self.unit}".rstrip()
        if math.isinf(self.lower_bound):
            return "a finite number"
        relation = " greater than" if is_open else ", at least"
        return f"a finite number{relation} {format_value(self.lower_bound)}"


def format_value(value: object) -> str:
    """Format a value for a message."""
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else repr(value)


def defaults(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the default of each field, by name."""
    return {item.name: item.default for item in fields}
