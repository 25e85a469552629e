"""Parse a method name. A method is a forget objective with a weighting of the retain gradient and the forget gradient.

A name is a pair, a weighting or an objective. ``npo+ngdiff`` is the objective npo with the weighting ngdiff. ``ngdiff``
is the objective ascent with the weighting ngdiff. ``npo`` is the objective npo with its default weighting. The default
weighting of npo is ga, which uses only the forget gradient, as in the NPO paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from search_spaces.common.fields import Field, defaults
from search_spaces.common.messages import expected_one_of
from trainables.objectives import ALIASES, OBJECTIVES, ForgetObjective
from trainables.weightings import WEIGHTINGS, Needs, Weighting


class MethodError(ValueError):
    """Raised if a method name is unknown or a pair's weighting ignores the forget loss. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Method:
    """A forget objective with a weighting. If the user gave an alias, ``name`` has the objective's own name instead."""

    name: str
    objective: ForgetObjective
    weighting: Weighting

    @property
    def options(self) -> Mapping[str, Field]:
        """The method's options by name: first the objective's options, then the weighting's options."""
        return {option.name: option for option in self.owned_options.values()}

    @property
    def owned_options(self) -> dict[str, Field]:
        """The method's options by key, such as ``npo.beta`` or ``gdiff.c``."""
        return _by_key(self.objective, self.weighting)

    def resolve(self, value_by_name: Mapping[str, float]) -> dict[str, float]:
        """Return a value for every option of the method: the given value, or the default."""
        return {name: value_by_name.get(name, default) for name, default in defaults(self.options.values()).items()}


def method_names() -> tuple[str, ...]:
    """Return the names of all methods, except pairs such as ``npo+ngdiff``."""
    objective_names = [name for name in OBJECTIVES if name != "ascent"]
    return (*WEIGHTINGS, *objective_names)


def option_names() -> tuple[str, ...]:
    """Return the names of the options of all methods: first ``c``, then the others alphabetically."""
    names = {option.name for option in OPTIONS.values()}
    return tuple(sorted(names, key=lambda name: (name != "c", name)))


def options_by_method(names: Iterable[str]) -> dict[str, dict[str, Field]]:
    """Return the options of each method: ``{method: {option key: option}}``."""
    return {name: parse_method(name).owned_options for name in names}


def parse_method(name: str) -> Method:
    """Return the method with this name.

    Raises:
        MethodError: the name is unknown, or the pair's weighting ignores the forget loss.
    """
    first_name, plus, weighting_name = name.partition("+")
    is_pair = plus == "+"
    objective_name = ALIASES.get(first_name, first_name)
    name = f"{objective_name}{plus}{weighting_name}"
    if not is_pair:
        if name in WEIGHTINGS:
            objective_name = "ascent"
            weighting_name = name
        elif name in OBJECTIVES:
            weighting_name = OBJECTIVES[name].weighting
        else:
            raise MethodError(
                f"unknown method '{name}': {expected_one_of(name, method_names())}, "
                "or a pair objective+weighting such as npo+ngdiff"
            )
    if objective_name not in OBJECTIVES:
        raise MethodError(
            f"unknown forget objective '{objective_name}' in method '{name}': "
            f"{expected_one_of(objective_name, OBJECTIVES)}"
        )
    if weighting_name not in WEIGHTINGS:
        raise MethodError(
            f"unknown weighting '{weighting_name}' in method '{name}': {expected_one_of(weighting_name, WEIGHTINGS)}"
        )
    weighting = WEIGHTINGS[weighting_name]
    if is_pair and weighting.needs is Needs.RETAIN_ONLY:
        raise MethodError(
            f"method '{name}' is invalid: the weighting {weighting_name} uses only the retain loss, so the forget "
            f"objective {objective_name} would have no effect; use '{weighting_name}'"
        )
    return Method(name, OBJECTIVES[objective_name], weighting)


def _by_key(*owners: ForgetObjective | Weighting) -> dict[str, Field]:
    return {f"{owner.name}.{option.name}": option for owner in owners for option in owner.options}


OPTIONS: Mapping[str, Field] = MappingProxyType(_by_key(*WEIGHTINGS.values(), *OBJECTIVES.values()))
"""The options of all methods by key."""
