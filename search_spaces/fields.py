"""Descriptions of settings: the fields of a trial's spec, and the options of a method.

The command-line options, the validation of a spec, the names and types in space files, and the columns of tables are
all derived from these descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Literal

from search_spaces.messages import expected_one_of

Role = Literal["method", "training", "auto_lr", "data", "scoring", "placement"]
"""What a setting describes. Settings with the role ``placement`` are locations on this machine."""
Scope = Literal["trial", "command"]
"""``trial``: the setting is a field of a trial. ``command``: the setting is only an option of a command."""

LINEAR, LOG, LOG_TO_ONE = "linear", "log", "log to one"
"""The scales on which values are sampled: uniformly in x, in log x, or in log(1 - x)."""

KIND_NAMES: Mapping[type, str] = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}
SWITCHES: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}


@dataclass(frozen=True, slots=True)
class Range:
    """The default search range of a setting, and the publication or other source of this range."""

    low: float
    high: float
    scale: str
    source: str


@dataclass(frozen=True, slots=True)
class Field:
    """One setting.

    Attributes:
        name: the setting's name in a configuration and in tables.
        default: the value if the user does not set any. ``otherwise`` describes a default that is not a plain value.
        help: the description in ``--help`` and in lists.
        label, unit: the name on a plot's axis, and the unit of the numbers, if any.
        kind: the type of the values. ``many`` allows several values, ``optional`` allows None.
        low, high: the closed interval of allowed numbers. Numbers must also be greater than ``above``; infinity is
            never allowed.
        choices: all allowed texts, or a function that returns them; empty if any text is allowed.
        words: words that stand for a value on the command line, such as ``none`` for 0.
        role: what the setting describes.
        scope: whether the setting is a field of a trial.
        commands: the commands that have the setting as an option.
        repeats: whether the option may be given several times.
        changeable: the help text for ``resume``; empty if resume cannot change the setting.
        is_path: whether the value is a path.
        metavar: the placeholder for the value in ``--help``; empty for the usual placeholder.
        flag: the command-line option; empty if the setting has none.
        decides: whether the setting can change the result. A trial's hash contains only such settings.
        when: values of other fields, by name. The setting has an effect only if each of these fields has a listed
            value.
        fixed: the reason why the setting cannot vary within a sweep, as a clause; empty if it can vary.
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
        """Return a copy of the field with this default search range."""
        return replace(self, range=Range(low, high, scale, source))

    @property
    def title(self) -> str:
        """The setting's name in messages: a trial field's name (and its option, if different), otherwise the option."""
        if self.scope != "trial":
            return self.flag
        usual = self.flag in ("", f"--{self.name.replace('_', '-')}")
        return self.name if usual else f"{self.name} ({self.flag})"

    @property
    def kind_name(self) -> str:
        """The type of the values, in words."""
        return "names" if self.many else KIND_NAMES[self.kind] + (" or null" if self.optional else "")

    @property
    def allowed(self) -> Collection[str]:
        """The allowed values; empty if any value is allowed."""
        return self.choices() if callable(self.choices) else self.choices

    def has_effect(self, values: Mapping[str, object]) -> bool:
        """Return whether the field has an effect if the other fields have these values."""
        return all(values[name] in expected for name, expected in self.when.items())

    def typed(self, value: Any) -> Any:
        """Convert a valid value to the field's type: 5.0 becomes the integer 5, and 1 becomes the float 1.0."""
        if value is None:
            return None
        return tuple(map(self.kind, value)) if self.many else self.kind(value)

    def read(self, value: object) -> Any:
        """Convert a keyword argument, or a text from the command line or a file, to a value of the field.

        Raises:
            ValueError: the text is not a value of the field's type; the message names the option.
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
        each = f"; to give a sweep several values, write {' '.join(f'{option} {part}' for part in parts)}"
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
        """Return whether a value has the field's type. An integer may be written 5.0; True is not a number."""
        if value is None:
            return self.optional
        if self.many:
            return isinstance(value, tuple) and all(isinstance(item, self.kind) for item in value)
        if self.kind in (int, float):
            return isinstance(value, int | float) and not isinstance(value, bool)
        return isinstance(value, self.kind)

    def problem(self, value: object) -> str | None:
        """Return a message that explains why the value is not valid, or None if the value is valid."""
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
        """The lower end of the interval, which may be inclusive or exclusive."""
        return max(self.low, self.above)

    @property
    def _expected(self) -> str:
        is_open = self.above > self.low
        if math.isfinite(self.high):
            return f"in {'(' if is_open else '['}{shown(self.least)}, {shown(self.high)}]"
        if self.kind is int:
            return f"at least {shown(self.low)} {self.unit}".rstrip()
        if math.isinf(self.least):
            return "a finite number"
        return f"a finite number{' greater than' if is_open else ', at least'} {shown(self.least)}"


def shown(value: object) -> str:
    """Return the text that stands for a value in messages."""
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else repr(value)


def defaults(described: Iterable[Field]) -> dict[str, Any]:
    """Return the default of every field, by name."""
    return {item.name: item.default for item in described}
