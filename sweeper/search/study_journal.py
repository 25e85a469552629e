"""The study's file, OUT/optuna.log, made whole whatever has happened to it; optuna-dashboard opens it."""

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
    """The storage in ``OUT/optuna.log``: its lines up to the first that is damaged, which every later one builds on.

    What is lost so is in trials.csv (see :meth:`sweeper.search.study.SweepStudy.restore`); the damaged file is kept as
    ``optuna.log.damaged``.
    """
    log = out / "optuna.log"
    cut_torn_line(log)
    log.with_name(f"{log.name}.lock").unlink(missing_ok=True)  # a killed driver's: the caller holds the folder
    if log.is_file():
        lines = log.read_bytes().splitlines(keepends=True)
        whole = next((number for number, line in enumerate(lines) if not _is_operation(line)), len(lines))
        if whole < len(lines):
            _set_aside(log, f"its line {whole + 1} cannot be read", rest=b"".join(lines[:whole]))
    try:
        return _storage(log)
    except Exception as error:  # whatever Optuna makes of lines that are JSON and do not fit together
        _set_aside(log, f"its lines do not fit together ({type(error).__name__})", rest=b"")
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


def _set_aside(log: Path, why: str, *, rest: bytes) -> None:
    kept = log.with_name(f"{log.name}.damaged")
    kept.unlink(missing_ok=True)
    log.rename(kept)
    if rest:
        write_whole(log, rest, sync=True)
    logger.warning("%s is damaged: %s; it is kept as %s, and trials.csv tells what is lost", log, why, kept.name)
