"""``ui``: the MLflow UI on the sweeps' database."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

import click

from sweeper.commands import options
from sweeper.commands.errors import plain_errors, refuse

_PATIENCE = 10.0  # seconds for the server to end by itself


@click.command()
@click.option("--tracking-uri", help="Database to show.  [default: $MLFLOW_TRACKING_URI, or sqlite:///mlflow.db]")
@click.option("--port", type=options.WHOLE, default=5000, show_default=True, help="Port on this machine.")
@plain_errors
def ui(tracking_uri: str | None, port: int) -> None:
    """Open the MLflow UI on http://127.0.0.1:PORT: sort trials by metric, download checkpoints; Ctrl-C ends it."""
    from sweeper.commands.from_options import DEFAULT_TRACKING

    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
    refuse([*options.given_problems(), *_problems(uri)])
    # One worker and no job execution: it answers in 6 s instead of 22 and takes a quarter of the memory.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    arguments = ["ui", "--backend-store-uri", uri, "--workers", "1", "--port", str(port)]
    sys.exit(_served([sys.executable, "-m", "mlflow", *arguments], environment))


def _problems(uri: str) -> list[str]:
    """Why there is nothing to show; MLflow would make an empty database in any folder it is started in."""
    from sweeper.tracking.uri import sqlite_path, tracking_problem

    if problem := tracking_problem(uri):
        return [problem]
    path = sqlite_path(uri)
    if path is None or path.exists():
        return []
    return [
        f"there is no tracking database {path.absolute()}: go to the folder the sweep was started in, or name its "
        "database with --tracking-uri sqlite:////FOLDER/mlflow.db (the last line of a sweep says where it is)"
    ]


def _served(command: list[str], environment: dict[str, str]) -> int:
    """Run a server until it ends or a signal ends us; it takes the processes it has started along."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return server.wait()
    finally:
        for number, patience in ((signal.SIGTERM, _PATIENCE), (signal.SIGKILL, None)):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(server.pid, number)
                server.wait(patience)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
