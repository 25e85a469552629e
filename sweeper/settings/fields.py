"""Describe the options of a command as the fields of a dataclass, in the pattern of :mod:`trainables.spec`.

The dataclasses are in :mod:`sweeper.settings.options`. ``--help`` imports this module, so this module must not import
slow packages.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar, get_args, get_type_hints

from search_spaces.common.fields import Field, Role
from trainables.spec import FIELDS

T = TypeVar("T")


def option(default: T, help: str, *, name: str = "", after: str = "", **attributes: Any) -> T:
    """Return a dataclass field for an option that is not a field of a trial.

    The type of the dataclass field is the type of the value. An option with the type ``tuple[X, ...]`` can be repeated.

    Args:
        name: the name of the option, if it is not the name of the dataclass field.
        after: the option that precedes this option in ``--help``, if it is not the previous dataclass field.
        attributes: attributes of :class:`.Field`.
    """
    described: T = field(default=default, metadata={"help": help, "name": name, "after": after, "given": attributes})
    return described


def trial_option(name: str, default: T, *, after: str = "", **changes: Any) -> T:
    """Return a dataclass field for an option that sets a field of a trial.

    ``default`` is the value if the option is not given. ``changes`` maps attributes of the trial's :class:`.Field` to
    other values.
    """
    described: T = field(default=default, metadata={"trial": name, "after": after, "given": changes})
    return described


def trial_options(*roles: Role, without: Collection[str] = ()) -> Mapping[str, Any]:
    """Return a dataclass field for all fields of a trial with these roles: a mapping with the given values by name.

    Left out are the fields in ``without``, fields without an option, and fields with a dataclass field of their own.
    """
    described: Mapping[str, Any] = field(default_factory=dict, metadata={"roles": roles, "without": tuple(without)})
    return described


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command.

    Attributes:
        field: the description of the option.
        attribute: the name of the dataclass field that holds the value.
        in_mapping: whether the dataclass field is a mapping with the values of several options.
        after: the name of the preceding option in ``--help``, or "".
    """

    field: Field
    attribute: str
    in_mapping: bool = False
    after: str = ""


def options_of(options_type: type) -> Mapping[str, Option]:
    """Return the options of a command by name, in the order of ``--help``."""
    return _options_of(options_type)


@functools.cache
def _options_of(options_type: type) -> Mapping[str, Option]:
    hints = get_type_hints(options_type)
    options = {item.field.name: item for item in _described(options_type, hints)}
    followers: dict[str, list[Option]] = {}
    for item in options.values():
        followers.setdefault(item.after if item.after in options else "", []).append(item)

    def in_order(preceding: str) -> Iterator[Option]:
        for item in followers.get(preceding, ()):
            yield item
            yield from in_order(item.field.name)

    return {item.field.name: item for item in in_order("")}


def fields_of(options_type: type) -> Mapping[str, Field]:
    """Return the descriptions of a command's options by name, in the order of ``--help``."""
    return {name: item.field for name, item in options_of(options_type).items()}


def by_name_and_flag(options_type: type) -> dict[str, Field]:
    """Return the descriptions by name and by flag. The flag ``--lora-rank`` has the key ``lora_rank``."""
    described = fields_of(options_type)
    by_flag = {item.flag.removeprefix("--").replace("-", "_"): item for item in described.values()}
    return {**described, **by_flag}


def _described(options_type: type, hints: Mapping[str, Any]) -> Iterator[Option]:
    own_names = {item.name for item in fields(options_type)}
    for item in fields(options_type):
        metadata = item.metadata
        if "roles" in metadata:
            for name, trial_field in FIELDS.items():
                is_included = trial_field.role in metadata["roles"] and name not in metadata["without"]
                if is_included and trial_field.flag and name not in own_names:
                    yield Option(_with_path(trial_field), item.name, in_mapping=True)
        elif metadata:
            types = get_args(hints[item.name]) or (hints[item.name],)  # the types in "int | None" or "tuple[str, ...]"
            repeats = Ellipsis in types
            if "trial" in metadata:
                described = replace(_with_path(FIELDS[metadata["trial"]]), repeats=repeats, **metadata["given"])
            else:
                name = metadata["name"] or item.name
                default = None if repeats else item.default
                derived = {"kind": types[0], "repeats": repeats, "flag": f"--{name.replace('_', '-')}"}
                derived |= {"scope": "command", "optional": default is None}
                described = Field(name, default, metadata["help"], **{**derived, **metadata["given"]})
            yield Option(described, item.name, after=metadata["after"])


def _with_path(trial_field: Field) -> Field:
    return replace(trial_field, is_path=trial_field.role == "placement")
