"""A search space: constants, and an ordered list of parameters, which may be conditional.

    space = Space((Choice("method", ("gdiff", "ngdiff")), Number("c", 0.1, 0.9, when={"method": ("gdiff",)})))
    config = space.suggest(study.ask())       # {"method": "gdiff", "c": 0.37} or {"method": "ngdiff"}
    study.enqueue_trial(space.params_of(config))

A configuration maps plain names to values. A parameter is in the configuration only if its condition holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from search_spaces.parameters import (
    Choice,
    Condition,
    Number,
    Parameter,
    format_parameter,
    parameter_from_dict,
    to_dict,
)
from search_spaces.values import Value, plain_name, same

if TYPE_CHECKING:
    import optuna


class SpaceError(ValueError):
    """The search space cannot be used. The attribute ``problems`` has one message per mistake."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Space:
    """Constants, and an ordered list of parameters. A condition refers to earlier parameters and to constants.

    The constructor does not check the space. All methods except :meth:`problems` expect a space without problems.
    """

    parameters: tuple[Parameter, ...] = ()
    constants: Mapping[str, Value] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", tuple(self.parameters))
        object.__setattr__(self, "constants", dict(self.constants))

    @classmethod
    def from_parameters(cls, parameters: Sequence[Parameter]) -> Space:
        """Return a space with these parameters. An unconditional parameter with a single value becomes a constant."""
        fixed = {
            item.key: item.values[0]
            for item in parameters
            if isinstance(item, Choice) and len(item.values) == 1 and not item.when and item.key == item.name
        }
        return cls(tuple(item for item in parameters if item.key not in fixed), fixed)

    def suggest(self, trial: optuna.trial.BaseTrial) -> dict[str, Value]:
        """Return the configuration that an Optuna trial suggests."""
        config, seen = dict(self.constants), dict(self.constants)
        for parameter in self.parameters:
            if _is_active(parameter, seen):
                config[parameter.name] = seen[parameter.key] = parameter.suggest(trial)
        return config

    def grid(self) -> list[dict[str, Value]]:
        """Return all configurations of a grid search. The last parameter changes fastest.

        Raises:
            ValueError: a range has no points of a grid search.
        """
        endless = [item for item in self.parameters if not isinstance(item, Choice) and item.points() is None]
        if endless:
            named = " and ".join(f"{item.key} ({item.low:g} to {item.high:g})" for item in endless)
            raise ValueError(
                f"a grid search cannot visit every value of {named}. List the values to visit "
                "on the command line or in a space file (with 'values', or with 'grid' next to 'low' and 'high'), "
                "or use another sampler"
            )
        branches = [(dict(self.constants), dict(self.constants))]
        for parameter in self.parameters:
            branches = [grown for branch in branches for grown in _extend(parameter, *branch)]
        return [config for config, _ in branches]

    def configuration(self, values: Mapping[str, Value]) -> dict[str, Value]:
        """Return the configuration with these values. Values of parameters whose conditions do not hold are omitted.

        Raises:
            ValueError: the configuration is not in the space.
        """
        config, seen = dict(self.constants), dict(self.constants)
        for parameter in self.parameters:
            if _is_active(parameter, seen) and parameter.name in values:
                config[parameter.name] = seen[parameter.key] = values[parameter.name]
        self.params_of(config)
        return config

    def params_of(self, config: Mapping[str, object]) -> dict[str, Value]:
        """Convert a configuration to Optuna parameters.

        Names that are not in the space, such as ``seed``, are omitted.

        Raises:
            ValueError: the configuration is not in the space.
        """
        params: dict[str, Value] = {}
        seen: dict[str, object] = dict(self.constants)
        wrong = [name for name, value in seen.items() if name not in config or not same(config[name], value)]
        idle = {parameter.name for parameter in self.parameters}
        for parameter in self.parameters:
            if not _is_active(parameter, seen):
                continue
            idle.discard(parameter.name)
            if parameter.name not in config or not parameter.accepts(config[parameter.name]):
                wrong.append(parameter.key)
                continue
            value = seen[parameter.key] = config[parameter.name]
            if name := parameter.optuna_name:
                params[name] = parameter.optuna_value(value)
        wrong += [name for name in config if name in idle]
        if wrong:  # Optuna only warns if an enqueued value is out of range
            raise ValueError(f"{dict(config)} is not in the search space: {', '.join(wrong)} missing or not allowed")
        return params

    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """Return the Optuna distributions by Optuna name."""
        return {name: item.distribution() for item in self.parameters if (name := item.optuna_name)}

    def format_values(self, *, grid: bool = False) -> dict[str, Value]:
        """Return the value of each constant and a description of each parameter, by plain name.

        With ``grid``, a description lists the points of a grid search.
        """
        found = {plain_name(key): value for key, value in self.constants.items()}
        for parameter in self.parameters:
            others = [found[parameter.name]] if parameter.name in found else []
            found[parameter.name] = "; ".join(map(str, [*others, format_parameter(parameter, grid=grid)]))
        return found

    def problems(self) -> list[str]:
        """Return a message for each problem with the space."""
        own = [sentence for parameter in self.parameters for sentence in parameter.problems()]
        return [*own, *(sentence for _, sentence in relation_problems(self.parameters, self.constants))]

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable mapping for :meth:`from_dict`."""
        return {"parameters": [to_dict(item) for item in self.parameters], "constants": dict(self.constants)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Space:
        """Return the space that :meth:`to_dict` converted to a mapping.

        Raises:
            ValueError: the mapping is damaged.
        """
        try:
            return cls(tuple(map(parameter_from_dict, values["parameters"])), values["constants"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the stored search space is damaged: {error!r}") from None


def _is_active(parameter: Parameter, seen: Mapping[str, object]) -> bool:
    return all(
        key in seen and any(same(seen[key], value) for value in values) for key, values in parameter.when.items()
    )


def _extend(
    parameter: Parameter, config: dict[str, Value], seen: dict[str, Value]
) -> Iterator[tuple[dict[str, Value], dict[str, Value]]]:
    """Extend a partial configuration by each grid point of a parameter, and yield the results.

    If the parameter does not apply, yield the configuration unchanged. ``config`` maps plain names to values, and
    ``seen`` maps keys to the same values.
    """
    if not _is_active(parameter, seen):
        yield config, seen
        return
    for value in parameter.points() or ():
        yield config | {parameter.name: value}, seen | {parameter.key: value}


def relation_problems(parameters: Sequence[Parameter], constants: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield ``(key, message)`` for each conflict between the parameters and constants of a space."""
    keys = {parameter.key for parameter in parameters}
    earlier: dict[str, Parameter] = {}
    for parameter in parameters:
        key = parameter.key
        for other in _rivals(parameter, earlier, constants):
            remedy = "give them mutually exclusive conditions (when)"
            yield key, f"{key}: {other} and {key} both set '{parameter.name}', possibly in the same trial; {remedy}"
        for waited, values in parameter.when.items():
            if waited in keys and waited not in earlier and waited not in constants:
                yield key, f"{key}: its condition refers to {waited}, which must come before {key}"
            elif fault := _condition_problem(waited, values, earlier, constants):
                yield key, f"{key}: {fault}"
        earlier[key] = parameter


def _rivals(parameter: Parameter, earlier: Mapping[str, Parameter], constants: Mapping[str, Value]) -> Iterator[str]:
    """Yield the keys of earlier parameters and constants that set the same name as ``parameter`` in the same trial."""
    if parameter.name in constants and parameter.key not in constants:
        yield parameter.name
    for other in earlier.values():
        rivals = other.name == parameter.name and other.key != parameter.key
        if rivals and not _are_exclusive(other.when, parameter.when):
            yield other.key


def _condition_problem(
    waited: str, values: Sequence[Value], earlier: Mapping[str, Parameter], constants: Mapping[str, Value]
) -> str | None:
    if not values:
        return f"this parameter never applies, because its condition lists no value of {waited}"
    never = f"this parameter never applies, because its condition needs {waited} to be"
    listed = " or ".join(repr(value) for value in values)
    if waited in constants:
        if any(same(constants[waited], value) for value in values):
            return None
        return f"{never} {listed}, but {waited} is {constants[waited]!r}"
    if waited not in earlier:
        return f"its condition refers to {waited}, which is not in the space"
    if isinstance(awaited := earlier[waited], Number) and not awaited.integer:
        return f"its condition refers to {waited}, which is continuous; a condition needs values that can be listed"
    if not any(earlier[waited].accepts(value) for value in values):
        return f"{never} {listed}, but {waited} cannot have this value"
    return None


def _are_exclusive(left: Condition, right: Condition) -> bool:
    """Return whether two conditions never hold together, because they need different values of one parameter."""
    return any(not any(same(a, b) for a in left[key] for b in right[key]) for key in left.keys() & right.keys())
