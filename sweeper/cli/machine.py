"""The commands that concern this machine: ``doctor``, ``cache`` and ``ui``."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from search_spaces.common.values import json_text
from sweeper.cli.errors import FAILED, interrupted_by_signals
from sweeper.cli.options import command, json_option
from sweeper.settings.options import CacheOptions, DoctorOptions, UiOptions
from sweeper.settings.reading import about, located, read, read_valid
from sweeper.settings.sources import Problems, Raw, raise_if_any

_PACKAGES = ("torch", "ray", "transformers", "peft", "datasets", "optuna", "mlflow", "moocore", "rouge-score")


@command(DoctorOptions, json_option())
def doctor(raw: Raw, problems: list[str], *, as_json: bool) -> None:
    """Check versions, hardware, disk, hub and nodes. The exit code is 1 if a package is missing or a node is faulty."""
    from sweeper.checks.cluster_health import format_nodes, node_problems, query_cluster
    from trainables.storage import is_address, storage_problem

    options = read_valid(DoctorOptions, raw, problems)
    address, shared, storage = options.address, [Path(path) for path in options.shared], options.storage
    if shared and address is None:
        raise Problems(["--shared names a folder that the nodes of a cluster share: give --address too"])
    remedy = "use --shared for folders, together with --address"
    raise_if_any([f"--storage {text} is a folder: {remedy}" for text in storage if not is_address(text)])
    storage_problems = [storage_problem(uri) for uri in storage]
    raise_if_any([problem for problem in storage_problems if problem])
    versions = {"python": sys.version.split()[0]} | {name: _version(name) for name in _PACKAGES}
    missing_packages = [name for name, version in versions.items() if version is None]
    import torch

    from sweeper.checks.hub import hub_problems
    from trainables.target.cache import cache_folder

    versions["torch"] = torch.__version__  # unlike the package's version, this one names the build, such as +cu130
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    free_bytes = shutil.disk_usage(Path.cwd()).free
    reachable = not hub_problems([("model", "microsoft/phi-1_5")])
    folders = [path.resolve() for path in shared] or [cache_folder()]
    nodes = query_cluster(address, folders, storage) if address else {}
    faults = node_problems(nodes)
    if as_json:
        machine = {"cpus": os.cpu_count(), "gpus": gpus, "disk_free_bytes": free_bytes, "cache": str(cache_folder())}
        node_facts = {name: None if facts is None else asdict(facts) for name, facts in nodes.items()}
        cluster = {"nodes": node_facts, "faults": faults} if address else {}
        report = {"versions": versions, "missing": missing_packages, **machine, "hub_reachable": reachable, **cluster}
        click.echo(json_text(report))
    else:
        lines = {name: version or "missing" for name, version in versions.items()}
        lines |= {"cpus": str(os.cpu_count()), "gpus": ", ".join(gpus) or "none; trials run on CPU"}
        lines |= {"disk here": f"{free_bytes / 1e9:.0f} GB free", "cache": str(cache_folder())}
        lines["hub"] = (
            "reachable" if reachable else "not reachable; only local folders and models such as tiny-phi can be used"
        )
        click.echo("\n".join(f"{name:<13} {value}" for name, value in lines.items()))
        for uri in storage:
            click.echo(f"{'storage':<13} {uri.partition('?')[0]} can be read and written from here")
        for line in format_nodes(nodes):
            click.echo(f"{'node':<13} {line}")
    if missing_packages:
        click.echo(f"missing: {', '.join(missing_packages)}; run 'make env'", err=True)
    for fault in faults:
        click.echo(f"node {fault}", err=True)
    if missing_packages or faults:
        sys.exit(FAILED)


def _version(package: str) -> str | None:
    import importlib.metadata  # imported here because this import takes a third of the time of --help

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


_DAY_SECONDS = 86_400.0
_MODEL_FOLDERS = ("targets", "unfinished")
"""The cache folders that contain models."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A cached model, or all small files in the subfolder ``kind``. ``days`` counts the days since the last use."""

    kind: str
    what: str
    bytes: int
    days: float
    paths: tuple[str, ...]


@command(CacheOptions, json_option())
def cache(raw: Raw, problems: list[str], *, as_json: bool) -> None:
    """List the targets (models before unlearning) and scores in the cache that all sweeps share, with sizes and ages.

    If a target or score is missing, the next sweep that needs it computes it again. The folders of sweeps are not in
    this cache. Models and data sets of the Hugging Face hub are in the hub's own cache (see 'hf cache').
    """
    from search_spaces.common.durable import remove_atomically
    from search_spaces.common.messages import format_size
    from trainables.target.cache import cache_folder

    options = read_valid(CacheOptions, raw, problems)
    folder, older_than, prune = cache_folder(), options.older_than, options.prune
    rows = list(entries(folder, now=time.time(), older_than=older_than if prune else None))
    if prune:
        for entry in rows:
            for path in entry.paths:
                remove_atomically(Path(path))
    total = sum(entry.bytes for entry in rows)
    if as_json:
        click.echo(json_text({"folder": str(folder), "removed": prune, "entries": [asdict(entry) for entry in rows]}))
        return
    width = max((len(entry.what) for entry in rows), default=0)
    for entry in sorted(rows, key=lambda entry: -entry.bytes):
        click.echo(f"{entry.kind:<20} {entry.what:<{width}}  {format_size(entry.bytes):>7}  {_format_age(entry.days)}")
    if prune:
        click.echo(f"{format_size(total)} freed in {folder}" if rows else f"nothing to remove in {folder}")
    else:
        click.echo(f"{format_size(total)} in {folder}; --prune removes entries not used for {older_than:g} days")


def entries(folder: Path, *, now: float, older_than: float | None = None) -> Iterator[Entry]:
    """Yield the entries of the cache, except for models and files that were used in the last ``older_than`` days.

    Lock files are no entries. They are empty, and another process may hold them.
    """
    from search_spaces.common.messages import counted

    for subfolder in sorted(path for path in folder.glob("*") if path.is_dir()):
        small_files = []
        for path in sorted(subfolder.iterdir()):
            days = max(0.0, now - _last_used(path)) / _DAY_SECONDS
            if path.suffix == ".lock" or (older_than is not None and days < older_than):
                continue
            if subfolder.name in _MODEL_FOLDERS:
                what = f"{path.stem} {_describe(path)}".rstrip()
                yield Entry(kind=subfolder.name, what=what, bytes=_size(path), days=days, paths=(str(path),))
            else:
                small_files.append((path, days))
        if small_files:
            what = counted(len(small_files), "file")
            paths = tuple(str(path) for path, _ in small_files)
            total_bytes = sum(_size(path) for path, _ in small_files)
            min_days = min(days for _, days in small_files)
            yield Entry(kind=subfolder.name, what=what, bytes=total_bytes, days=min_days, paths=paths)


def _last_used(path: Path) -> float:
    target_file = path / "target.json"  # each use of a model updates the mtime of this file
    return (target_file if target_file.is_file() else path).stat().st_mtime


def _describe(path: Path) -> str:
    """Return the model and data of a cached target, such as ``tiny-phi on authors``."""
    try:
        target = json.loads((path / "target.json").read_text(encoding="utf-8"))
        return f"{target['model']} on {target['data']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _size(path: Path) -> int:
    return sum(file.stat().st_size for file in (path, *path.rglob("*")) if file.is_file())


def _format_age(days: float) -> str:
    if days >= 2:
        return f"used {days:.0f} days ago"
    hours = days * 24
    return f"used {hours:.0f} h ago" if hours >= 1 else "used within the hour"


_STOP_TIMEOUT = 10.0  # seconds to wait for the server to end after SIGTERM
_POLL_SECONDS = 0.3  # seconds between two checks whether the server responds


@command(UiOptions)
def ui(raw: Raw, problems: list[str]) -> None:
    """Serve the MLflow UI on http://127.0.0.1:PORT until Ctrl-C.

    In the UI, you can sort trials by metric and download checkpoints. When the UI responds, the command prints the URLs
    of the pages with the models and with the trials of the newest sweeps. In a desktop session, the command opens the
    newest sweep's page with the trials in the browser.
    """
    from sweeper.settings.tracking_uri import default_uri, missing_database, tracking_problem

    options, found = read(UiOptions, raw, problems)
    uri, port = options.tracking_uri or default_uri(), options.port
    found += about("tracking_uri", tracking_problem(uri) or missing_database(uri))
    raise_if_any(located(found, raw))
    # With one worker and no job execution, the server responds after 6 s instead of 22 s, with a quarter of the memory.
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    # A line for each request would push the printed URLs out of sight.
    options_of_server = ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    arguments = ["ui", "--backend-store-uri", uri, "--port", str(port), *options_of_server]
    server_command = [sys.executable, "-m", "mlflow", *arguments]
    url = f"http://127.0.0.1:{port}"
    sys.exit(_serve(server_command, environment, announce=lambda: _announce(url, browser=options.browser)))


def _announce(url: str, *, browser: bool) -> None:
    import urllib.request
    import webbrowser

    from sweeper.cli.mlflow_pages import sweep_pages

    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5):
            break
        time.sleep(_POLL_SECONDS)
    click.echo(url)
    pages = []
    with contextlib.suppress(OSError, ValueError, KeyError):  # the UI itself responds
        pages = list(sweep_pages(url))
    for page in pages:
        click.echo(f"{page.name}\n  models  {page.models}\n  trials  {page.trials}")
    if browser and _is_desktop():
        webbrowser.open(pages[0].trials if pages else url)


def _is_desktop() -> bool:
    """Return whether :mod:`webbrowser` would open a window rather than a text browser in this terminal."""
    has_display = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    is_desktop_system = sys.platform in ("darwin", "win32") or has_display
    return is_desktop_system and sys.stdout.isatty()


def _serve(server_command: list[str], environment: dict[str, str], announce: Callable[[], None]) -> int:
    """Run ``server_command``, and call ``announce`` in another thread. Return the server's exit code.

    When the server ends or a signal arrives, the server's process group is stopped.
    """
    with interrupted_by_signals():
        # The server's output goes to stderr, because the URL is printed on stdout.
        server = subprocess.Popen(server_command, env=environment, start_new_session=True, stdout=2)
        try:
            threading.Thread(target=announce, daemon=True).start()
            return server.wait()
        finally:
            for signal_number, timeout in ((signal.SIGTERM, _STOP_TIMEOUT), (signal.SIGKILL, None)):
                with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                    os.killpg(server.pid, signal_number)
                    server.wait(timeout)
