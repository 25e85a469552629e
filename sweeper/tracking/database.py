"""Making MLflow's SQLite file in one step, so that a sweep killed within its first seconds leaves none half made."""

from __future__ import annotations

import os
import shutil
import sqlite3
import uuid
from contextlib import closing
from pathlib import Path


def make_database(path: Path, *, workshop: Path) -> None:
    """Put an empty MLflow database at ``path``; does nothing when there is a file by then.

    MLflow builds a new database by some fifty migrations in about two seconds. Killed among them, it leaves a file
    that it can neither use nor repair ("duplicate column name"). So the migrations run in the folder ``workshop``,
    which is emptied before and removed after, and the result appears at ``path`` at once.

    Raises OSError where the disk refuses, and what MLflow raises.
    """
    if path.exists():
        return
    from mlflow import MlflowClient

    shutil.rmtree(workshop, ignore_errors=True)
    workshop.mkdir(parents=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    built = workshop / "mlflow.db"
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    MlflowClient(tracking_uri=f"sqlite:///{built}").search_experiments(max_results=1)
    try:
        with closing(sqlite3.connect(built)) as source, closing(sqlite3.connect(draft)) as target:
            source.backup(target)
        _place(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    shutil.rmtree(workshop, ignore_errors=True)


def _place(draft: Path, path: Path) -> None:
    try:
        os.link(draft, path)  # unlike a rename, never over the file of another sweep that was faster
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not path.exists():
            draft.replace(path)
