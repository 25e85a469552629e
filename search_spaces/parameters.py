"""The parameters of a search space: ranges of numbers, and lists of values.

A parameter has a plain ``name`` for configurations (``beta``) and a unique ``key`` for Optuna (``npo.beta``). Optuna
allows one distribution per key, but the beta of NPO and the beta of SimNPO have different ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from search_spaces.common.values import Value, is_number, is_one_of, same

if TYPE_CHECKING:
    import optuna

Condition = Mapping[str, tuple[Value, ...]]
"""A condition: the allowed values of earlier parameters and constants, by key."""

_MAX_INTEGER_POINTS = 1000
# With log_to_one, Optuna stores 1 - x. If x has at most 12 decimals, 1 - (1 - x) is exactly x.
_DECIMALS = 12


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the closed interval ``[low, high]``.

    Attributes:
        log: whether to sample uniformly in log x.
        when: maps keys of earlier parameters to the values with which this parameter exists.
        grid: the points of a grid search. The default for a range of at most 1,000 integers is all integers.
        log_to_one: whether to sample uniformly in log(1 - x), for numbers close to 1.
    """

    name: str
    low: float
    high: float
    log: bool = False
    when: Condition = field(default_factory=dict, hash=False)
    key: str = ""
    grid: tuple[float, ...] = ()
    log_to_one: bool = False
    integer: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", tuple(self.grid))
        _normalise(self)

    @property
    def optuna_name(self) -> str:
        return f"1-{self.key}" if self.log_to_one else self.key

    def accepts(self, value: object) -> bool:
        """Return whether a value is in the range."""
        return is_number(value) and self.low <= value <= self.high and self._is_exact(value)

    def optuna_value(self, value: Any) -> Value:
        """Convert a value in the range to the number that Optuna stores."""
        if self.integer:
            return int(value)
        return _from_one(value) if self.log_to_one else float(value)

    def distribution(self) -> optuna.distributions.BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.log_to_one:
            return FloatDistribution(_from_one(self.high), _from_one(self.low), log=True)
        if self.integer:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)

    def suggest(self, trial: optuna.trial.BaseTrial) -> Value:
        distribution = self.distribution()
        if self.integer:
            return int(trial.suggest_int(self.key, distribution.low, distribution.high, log=distribution.log))
        value = float(trial.suggest_float(self.optuna_name, distribution.low, distribution.high, log=distribution.log))
        return _from_one(value) if self.log_to_one else value

    def points(self) -> tuple[Value, ...] | None:
        """Return the points of a grid search; None if the range has too many points."""
        if not self.grid and self.integer and self.high - self.low < _MAX_INTEGER_POINTS:
            return tuple(range(int(self.low), int(self.high) + 1))
        return self.grid or None

    def problems(self) -> list[str]:
        """Return a message for each problem with the range. All its numbers must be finite."""
        key, low, high = self.key, self.low, self.high
        numbers = (low, high, *self.grid)
        problems = []
        if low >= high:
            problems.append(f"{key}: low must be less than high, got {low:g} and {high:g}")
        if self.log and low <= 0:
            problems.append(f"{key}: a logarithmic range must have low greater than 0, got {low:g}")
        outside = [point for point in self.grid if not low <= point <= high]
        problems += [f"{key}: grid points must lie in [{low:g}, {high:g}], got {point!r}" for point in outside]
        if self.integer and not problems and not all(map(self._is_exact, numbers)):
            problems.append(f"{key}: low, high and grid must be whole numbers")
        if self.log_to_one and self.log:
            problems.append(f"{key}: log and log_to_one are mutually exclusive")
        if self.log_to_one and high >= 1:
            problems.append(f"{key}: a range with log_to_one must have high less than 1, got {high:g}")
        if self.log_to_one and not all(map(self._is_exact, numbers)):
            problems.append(f"{key}: numbers with log_to_one must have at most {_DECIMALS} decimals")
        return problems

    def _is_exact(self, value: float) -> bool:
        if self.integer:
            return value == int(value)
        return not self.log_to_one or round(value, _DECIMALS) == value


@dataclass(frozen=True, slots=True)
class Choice:
    """A list of values. With one value, the parameter is a constant, which may still have a condition."""

    name: str
    values: tuple[Value, ...]
    when: Condition = field(default_factory=dict, hash=False)
    key: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        _normalise(self)

    @property
    def optuna_name(self) -> str | None:
        """The parameter's name in Optuna; None if there is only one value, because Optuna does not store it."""
        return self.key if len(self.values) > 1 else None

    def accepts(self, value: object) -> bool:
        return is_one_of(value, self.values)

    def optuna_value(self, value: Any) -> Value:
        """Return the choice that equals the value."""
        return next(choice for choice in self.values if same(value, choice))

    def distribution(self) -> optuna.distributions.BaseDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.values)

    def suggest(self, trial: optuna.trial.BaseTrial) -> Value:
        if len(self.values) == 1:
            return self.values[0]
        value: Value = trial.suggest_categorical(self.key, self.values)
        return value

    def points(self) -> tuple[Value, ...] | None:
        return self.values

    def problems(self) -> list[str]:
        return [] if self.values else [f"{self.key}: the list of values is empty, expected at least one value"]


Parameter = Number | Choice


def format_parameter(parameter: Parameter, *, grid: bool = False) -> str:
    """Return a description such as ``1e-05 to 0.001, log, with method gdiff``. With ``grid``, list the points."""
    if isinstance(parameter, Choice) or (grid and parameter.points()):
        text = ", ".join(map(str, parameter.points() or ()))
    else:
        text = f"{parameter.low:g} to {parameter.high:g}"
        if parameter.log:
            text += ", log"
        elif parameter.log_to_one:
            text += ", log of 1 - x"
    for key, values in parameter.when.items():
        text += f", with {key} {' or '.join(map(str, values))}"
    return text


def to_dict(parameter: Parameter) -> dict[str, object]:
    """Return a JSON-serialisable mapping for :func:`parameter_from_dict`."""
    values = asdict(parameter)
    if isinstance(parameter, Choice):
        return {"type": "choice", **values}
    is_integer = values.pop("integer")
    return {"type": "int" if is_integer else "float", **values}


_CONSTRUCTORS: Mapping[object, Callable[..., Parameter]] = {
    "choice": Choice,
    "float": Number,
    "int": partial(Number, integer=True),
}


def parameter_from_dict(values: Mapping[str, object]) -> Parameter:
    """Return the parameter that :func:`to_dict` converted to a mapping.

    Raises:
        AttributeError, KeyError, TypeError: the mapping is damaged.
    """
    arguments = dict(values)
    constructor = _CONSTRUCTORS[arguments.pop("type")]
    return constructor(**arguments)


def _from_one(value: float) -> float:
    return round(1.0 - value, _DECIMALS)


def _normalise(parameter: Parameter) -> None:
    object.__setattr__(parameter, "key", parameter.key or parameter.name)
    object.__setattr__(parameter, "when", {key: tuple(values) for key, values in parameter.when.items()})
