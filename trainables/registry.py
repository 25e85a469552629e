"""Registries that collect their entries from the modules of a package. To add an entry, add a module."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from trainables import plugins


def entries(package: str, paths: Iterable[str], attribute: str, *, first: Sequence[str]) -> Mapping[str, Any]:
    """Return a mapping from name to entry, with the entries of a package and of plug-ins.

    Args:
        package, paths: the name of the package, and its ``__path__``.
        attribute: the name of the variable that holds one entry or a tuple of entries in each module of the package.
        first: the names of the entries that come first. The package's other entries follow alphabetically, then those
            of plug-ins.

    Raises:
        ValueError: two modules have entries with the same name.
    """
    modules = [import_module(f"{package}.{module.name}") for module in iter_modules(paths)]
    package_entries: list[Any] = []
    for module in modules:
        value = getattr(module, attribute, ())
        package_entries += value if isinstance(value, tuple) else [value]
    names = [entry.name for entry in package_entries]
    if duplicates := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{package}: two entries have the same name: {', '.join(duplicates)}; rename one of them")
    rank_by_name = {name: rank for rank, name in enumerate(first)}
    package_entries.sort(key=lambda entry: (rank_by_name.get(entry.name, len(rank_by_name)), entry.name))
    return with_plugins(attribute, package_entries)


def with_plugins(attribute: str, package_entries: Iterable[Any]) -> Mapping[str, Any]:
    """Return a mapping from name to entry, with the given ``package_entries`` and those of plug-ins.

    ``attribute`` is the name of the variable in which a plug-in defines its entries. The entries of plug-ins are added
    at the first use of the mapping.
    """
    return _Entries(attribute, {entry.name: entry for entry in package_entries})


class _Entries(Mapping[str, Any]):
    def __init__(self, attribute: str, package_entries: Mapping[str, Any]) -> None:
        self._attribute = attribute
        self._package_entries = package_entries
        self._entries: dict[str, Any] | None = None

    def _load(self) -> Mapping[str, Any]:
        if self._entries is None:
            # Plug-ins import the registry's package, so loading plug-ins earlier would be a circular import.
            self._entries = dict(self._package_entries)
            for part in plugins.parts_for(self._attribute):
                self._entries.setdefault(part.name, part.entry)  # spec_checks.name_conflicts reports duplicate names
        return self._entries

    def __getitem__(self, name: str) -> Any:
        return self._load()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())
