"""The registry of attacks, and the named sets of attacks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import trainables.attacks
from search_spaces.common.messages import did_you_mean
from trainables.attacks.attack import Attack
from trainables.registry import entries

_FIRST = ("quantize", "sample", "paraphrase", "prefix", "combine", "relearn", "benign", "depth", "barrier")
# entries() also imports this module. ATTACK is not defined here, so this module adds no entries.
ATTACKS: Mapping[str, Attack] = entries("trainables.attacks", trainables.attacks.__path__, "ATTACK", first=_FIRST)
"""All attacks by name."""
NO_ATTACKS = "none"
SET = "attacks:"
"""The beginning of the name of the metric set with the metrics of a set of attacks."""


def attack_sets() -> Mapping[str, tuple[str, ...]]:
    """Return the names of the attacks in each named set."""
    names = [name for attack in ATTACKS.values() for name in attack.sets]
    sets = {name: tuple(item.name for item in ATTACKS.values() if name in item.sets) for name in names}
    return MappingProxyType({**sets, "all": tuple(ATTACKS), NO_ATTACKS: ()})


def metric_sets(text: str) -> tuple[str, ...]:
    """Return the names of the metric sets of the attacks in a text, which :func:`parse_attacks` accepts.

    The metrics of an attack that the data cannot give are left out only if the attack is named by a set.
    """
    names = dict.fromkeys(name.strip() for name in text.split(","))
    return tuple(name if name in ATTACKS else f"{SET}{name}" for name in names if name != NO_ATTACKS)


class AttackError(ValueError):
    """A text names an unknown attack. The message is for the user."""


def parse_attacks(text: str) -> tuple[str, ...]:
    """Return the names of the attacks in a text such as ``quantize,relearn`` or ``default``, in the registry's order.

    Raises:
        AttackError: a name is neither an attack nor a set of attacks.
    """
    sets = attack_sets()
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in ATTACKS and name not in sets]:
        choices = (*ATTACKS, *sets)
        messages = [f"unknown attack '{name}'{_hint(name, choices)}" for name in unknown]
        raise AttackError(f"{'; '.join(messages)}; expected one of {', '.join(choices)}")
    chosen = {attack for name in names for attack in sets.get(name, (name,))}
    return tuple(name for name in ATTACKS if name in chosen)


def _hint(unknown_name: str, choices: tuple[str, ...]) -> str:
    for attack in ATTACKS.values():
        if unknown_name in attack.endings:
            return f": the attack '{attack.name}' measures the columns ..._after_{unknown_name}"
    suggestion = did_you_mean(unknown_name, choices)
    return f": {suggestion}" if suggestion else ""
