"""``ui``: the MLflow UI on the sweeps' database."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import click

from sweeper.cli import options
from sweeper.cli.errors import plain_errors, refuse

_PATIENCE = 10.0  # seconds for the server to end by itself
_PAUSE = 0.3  # seconds between two looks whether it answers


@click.command()
@click.option("--tracking-uri", help="Database to show.  [default: $MLFLOW_TRACKING_URI, or sqlite:///mlflow.db]")
@click.option("--port", type=options.WHOLE, default=5000, show_default=True, help="Port on this machine.")
@click.option(
    "--browser/--no-browser", default=True, help="Open the address in the desktop's browser, where there is one."
)
@plain_errors
def ui(tracking_uri: str | None, port: int, browser: bool) -> None:
    """Open the MLflow UI on http://127.0.0.1:PORT: sort trials by metric, download checkpoints; Ctrl-C ends it.

    As soon as it answers, the address is printed that shows the trials of the newest sweep, sorted; in a desktop
    session it is opened in the browser (--no-browser only prints it).
    """
    from sweeper.cli.from_options import DEFAULT_TRACKING
    from sweeper.settings.tracking_uri import missing_database, tracking_problem

    uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or DEFAULT_TRACKING
    refuse([*options.given_problems(), *filter(None, [tracking_problem(uri) or missing_database(uri)])])
    # One worker and no job execution: it answers in 6 s instead of 22 and takes a quarter of the memory.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    arguments = ["ui", "--backend-store-uri", uri, "--workers", "1", "--port", str(port)]
    server = f"http://127.0.0.1:{port}"
    sys.exit(_served([sys.executable, "-m", "mlflow", *arguments], environment, lambda: _say_where(server, browser)))


def _say_where(server: str, browser: bool) -> None:
    """Print where the trials of the newest sweep are, and open it, as soon as the server answers."""
    import webbrowser

    from sweeper.followers.mlflow.view import answers, newest_view

    while not answers(server):
        time.sleep(_PAUSE)
    try:
        view = newest_view(server)
    except (OSError, ValueError, KeyError) as error:
        click.echo(f"{server}  (the newest sweep cannot be looked up: {error})")
        return
    if view is None:
        click.echo(f"{server}  (no sweep is in this database yet)")
        return
    click.echo(f"{view.address}\n  the trials of {view.sweep}, lowest {view.by} first; add to the search box:")
    click.echo("  and tags.pareto = 'true'       those on the frontier")
    click.echo("  and tags.recommended = 'true'  the one to take, where there is a good one")
    if browser and _is_desktop():
        webbrowser.open(view.address)


def _is_desktop() -> bool:
    """Whether a browser would open in a window of its own, and not in this terminal."""
    there = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return there and sys.stdout.isatty()


def _served(command: list[str], environment: dict[str, str], beside: Callable[[], None]) -> int:
    """Run a server until it ends or a signal ends us; it takes the processes it has started along.

    ``beside`` runs in a thread of its own, which nobody waits for.
    """
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    # Its own lines go to stderr: stdout has the address.
    server = subprocess.Popen(command, env=environment, start_new_session=True, stdout=2)
    try:
        threading.Thread(target=beside, daemon=True).start()
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
