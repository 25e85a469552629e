"""Open OUT/optuna.log, the study's journal, and repair a damaged journal. optuna-dashboard can read this file."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.durable import cut_torn_line, write_whole

if TYPE_CHECKING:
    import optuna

logger = logging.getLogger(__name__)


def open_journal(out: Path) -> optuna.storages.BaseStorage:
    """Return an Optuna storage for ``OUT/optuna.log``, built from the lines that precede the first damaged line.

    Later lines depend on the damaged line. The lost trials are restored from the event log
    (:meth:`sweeper.search.study.SweepStudy.restore`), and the damaged file is kept as ``optuna.log.damaged``.
    """
    log = out / "optuna.log"
    cut_torn_line(log)
    log.with_name(f"{log.name}.lock").unlink(missing_ok=True)  # left by a killed driver; the caller locks the folder
    if log.is_file():
        lines = log.read_bytes().splitlines(keepends=True)
        intact = next((index for index, line in enumerate(lines) if not _is_operation(line)), len(lines))
        if intact < len(lines):
            _set_aside(log, f"line {intact + 1} cannot be read", rest=b"".join(lines[:intact]))
    try:
        return _storage(log)
    except Exception as error:  # Optuna raises various errors for valid JSON lines that are inconsistent
        _set_aside(log, f"its lines are inconsistent ({type(error).__name__})", rest=b"")
        return _storage(log)


def _storage(log: Path) -> optuna.storages.BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(log)))


def _is_operation(line: bytes) -> bool:
    try:
        content = json.loads(line)
    except ValueError:
        return False
    return isinstance(content, dict) and isinstance(content.get("op_code"), int)


def _set_aside(log: Path, problem: str, *, rest: bytes) -> None:
    damaged = log.with_name(f"{log.name}.damaged")
    log.replace(damaged)
    if rest:
        write_whole(log, rest, sync=True)
    logger.warning(
        "%s is damaged: %s. Lost trials are restored; the damaged file is kept as %s", log, problem, damaged.name
    )
