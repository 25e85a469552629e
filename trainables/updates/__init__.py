"""The registry of updates.

To add an update, add a file with ``UPDATE = Update(...)`` to this package.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainables.registry import entries
from trainables.updates.base import Settings, Update

__all__ = ["UPDATES", "Settings", "Update"]

UPDATES: Mapping[str, Update] = entries(__name__, __path__, "UPDATE", first=("plain",))
"""Every update by name, in the order in which commands list them."""
