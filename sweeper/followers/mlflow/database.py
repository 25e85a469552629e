"""Making MLflow's SQLite file in one step, so that a sweep killed within its first seconds leaves none half made."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from search_spaces.durable import staged


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
    built = workshop / "mlflow.db"
    MlflowClient(tracking_uri=f"sqlite:///{built}").search_experiments(max_results=1)
    with (
        staged(path, keep_existing=True) as staging,  # another sweep may be faster
        closing(sqlite3.connect(built)) as source,
        closing(sqlite3.connect(staging)) as target,
    ):
        source.backup(target)
    shutil.rmtree(workshop, ignore_errors=True)
