"""Run sweeps from the command line, or from Python with the functions of :mod:`sweeper.api` (docs/python.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sweeper.store.version import __version__ as __version__

if TYPE_CHECKING:
    from sweeper.api import Sweep, ask, evaluate, pick, unlearn

__all__ = ["Sweep", "ask", "evaluate", "pick", "unlearn"]


def __getattr__(name: str) -> Any:
    # Import sweeper.api only when needed, because --help is faster without this import.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sweeper import api

    return getattr(api, name)
