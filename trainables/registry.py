"""Registries that fill themselves: whatever file of a package has an entry is in it, so that adding one is one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Any


def entries(package: str, paths: Iterable[str], attribute: str, *, first: Sequence[str]) -> Mapping[str, Any]:
    """By its ``name``, the ``attribute`` of every module of a package that has one: an entry, or several in a tuple.

    ``first`` names those that are listed first, in this order; the others follow by their names.

    Raises:
        ValueError: two modules have an entry of the same name, or one of ``first`` is not there.
    """
    modules = [import_module(f"{package}.{module.name}") for module in iter_modules(paths)]
    given = [getattr(module, attribute, ()) for module in modules]
    found = [entry for item in given for entry in (item if isinstance(item, tuple) else (item,))]
    names = [entry.name for entry in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{package}: two entries have one name: {', '.join(twice)}; rename one of them")
    if lacking := sorted(set(first) - set(names)):
        raise ValueError(f"{package}: listed and not there: {', '.join(lacking)}")
    place = {name: number for number, name in enumerate(first)}
    found.sort(key=lambda entry: (place.get(entry.name, len(place)), entry.name))
    return MappingProxyType({entry.name: entry for entry in found})
