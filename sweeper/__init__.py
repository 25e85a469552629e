"""The command line and the sweep: search, placement, tracking, live display, resume.

``from sweeper import Sweep, unlearn, evaluate, pick`` gives the commands as Python functions (docs/python.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sweeper.store.version import __version__ as __version__

if TYPE_CHECKING:
    from sweeper.api import Sweep, evaluate, pick, unlearn

__all__ = ["Sweep", "evaluate", "pick", "unlearn"]


def __getattr__(name: str) -> Any:
    """Import a name of the Python interface on first use, because ``--help`` needs none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sweeper import api

    return getattr(api, name)
