"""Check that the parameters of a space are consistent: keys, names and conditions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from search_spaces.parameters import Condition, Number, Parameter
from search_spaces.values import Value, is_value, same

Conditions = list[tuple[str, tuple[Value, ...]]]


def relation_problems(parameters: Sequence[Parameter], constants: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield ``(key, message)`` for each inconsistency between the members of a space.

    Inconsistencies are a duplicate key; two parameters of the same name that can apply together; a condition on a
    parameter that is missing, later or continuous; a condition that never holds; an invalid constant.
    """
    for name, value in constants.items():
        if not is_value(value):
            yield name, f"{name}: must be a text, a finite number, true, false or null, got {value!r}"
    keys = {parameter.key for parameter in parameters}
    earlier: dict[str, Parameter] = {}
    for parameter in parameters:
        key = parameter.key
        if key in earlier or key in constants:
            yield key, f"{key}: appears twice"
        for other in _rivals(parameter, earlier, constants):
            remedy = "give them conditions (when) that exclude each other"
            yield key, f"{key}: {other} and {key} both set '{parameter.name}' and can apply together; {remedy}"
        for waited, values in parameter.when.items():
            if waited in keys and waited not in earlier and waited not in constants:
                yield key, f"{key}: its condition is on {waited}, which must come before it"
            elif fault := _condition_fault(waited, values, earlier, constants):
                yield key, f"{key}: {fault}"
        earlier[key] = parameter


def _rivals(parameter: Parameter, earlier: Mapping[str, Parameter], constants: Mapping[str, Value]) -> Iterator[str]:
    """Yield keys that set the same name and are not mutually exclusive."""
    if parameter.name in constants and parameter.key not in constants:
        yield parameter.name
    for other in earlier.values():
        rivals = other.name == parameter.name and other.key != parameter.key
        if rivals and not _exclude(_all_conditions(other, earlier), _all_conditions(parameter, earlier)):
            yield other.key


def _condition_fault(
    waited: str, values: Sequence[Value], earlier: Mapping[str, Parameter], constants: Mapping[str, Value]
) -> str | None:
    listed = " or ".join(repr(value) for value in values) or "one of no values"
    if waited in constants:
        if any(same(constants[waited], value) for value in values):
            return None
        return f"never applies: it waits for {waited} to be {listed}, but {waited} is {constants[waited]!r}"
    if waited not in earlier:
        return f"its condition is on {waited}, which is not in the space"
    if isinstance(awaited := earlier[waited], Number) and not awaited.whole:
        return f"its condition is on {waited}, which is continuous; conditions need values that can be listed"
    if not any(earlier[waited].accepts(value) for value in values):
        return f"never applies: it waits for {waited} to be {listed}, which {waited} never is"
    return None


def _all_conditions(parameter: Parameter, earlier: Mapping[str, Parameter]) -> Conditions:
    """Return the conditions of the parameter and of every parameter it depends on, which must hold as well."""
    found: Conditions = []
    pending: list[Condition] = [parameter.when]
    visited: set[str] = set()
    while pending:
        for key, values in pending.pop().items():
            found.append((key, values))
            if key in earlier and key not in visited:
                visited.add(key)
                pending.append(earlier[key].when)
    return found


def _exclude(left: Conditions, right: Conditions) -> bool:
    return any(
        key == other and not any(same(a, b) for a in values for b in others)
        for key, values in left
        for other, others in right
    )
