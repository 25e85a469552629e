"""Serve a report as a local page that reloads itself, and rebuild the report when its tables change."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from pathlib import Path
from typing import NoReturn

from search_spaces.common.durable import Throttle
from sweeper.store.folder import UsageError
from sweeper.store.tables import TABLES

CHECK_SECONDS = 1.0
"""Seconds between two checks for changed tables."""
_MAX_BUILD_SHARE = 0.1
"""The maximum fraction of time for building the page. The fraction is small, because trials need the CPU."""
_WATCHED = ("sweep.json", *TABLES)
_LOCAL = ("127.0.0.1", "localhost")


def table_stamps(sources: Sequence[Path]) -> tuple[object, ...]:
    """Return the path, modification time (ns) and size of each table that exists in the sources.

    A source is a CSV file, or a folder with the tables of a sweep or run.
    """
    files: list[Path] = []
    for source in sources:
        files += [source] if source.is_file() else [source / name for name in _WATCHED]
    stamps: list[object] = []
    for path in files:
        with contextlib.suppress(OSError):
            file_stat = path.stat()
            stamps.append((str(path), file_stat.st_mtime_ns, file_stat.st_size))
    return tuple(stamps)


def live_page(page: str) -> str:
    """Insert reload.js into an HTML page, and allow the script in the page's content security policy."""
    script = resources.files("sweeper.cli").joinpath("reload.js").read_text("utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed_sources = f"connect-src 'self'; script-src 'sha256-{digest}' "
    page = re.sub(r"script-src (?='|&#39;)", allowed_sources, page, count=1)
    return page.replace("</body>", f"<script>{script}</script>\n</body>", 1)


class _Handler(BaseHTTPRequestHandler):
    page: Path

    def do_GET(self) -> None:
        """Send the page. For the path ``/made``, send the modification time of the page (ns)."""
        host_and_port = self.headers.get("Host") or ""
        host = host_and_port.rpartition(":")[0] or host_and_port  # the port is optional
        if host not in _LOCAL:  # an external host name that resolves to this machine (DNS rebinding)
            self.send_error(403)
        elif self.path in ("/", "/report.html"):
            self._send(live_page(self.page.read_text(encoding="utf-8")), "text/html")
        elif self.path == "/made":
            self._send(str(self.page.stat().st_mtime_ns), "text/plain")
        else:
            self.send_error(404)

    def _send(self, text: str, content_type: str) -> None:
        content = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the browser has closed the connection
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Do not log requests."""


@contextlib.contextmanager
def serving(page: Path, *, port: int) -> Iterator[str]:
    """Serve a page on this machine during the ``with`` block, and yield the URL. Port 0 selects any free port.

    Raises:
        UsageError: the port is in use, or this user has no permission to open it.
    """
    handler = type("Handler", (_Handler,), {"page": page})
    try:
        server = ThreadingHTTPServer((_LOCAL[0], port), handler)
    except OSError as error:
        raise UsageError(
            f"--port {port}: {error.strerror or error}; name another port, or leave out --port to use any free port"
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield f"http://{_LOCAL[0]}:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def watch(
    sources: Sequence[Path], rebuild: Callable[[], object], *, stamps: tuple[object, ...], say: Callable[[str], None]
) -> NoReturn:
    """Call ``rebuild``, which rebuilds the page, whenever a table changes.

    If ``rebuild`` raises OSError or an error with an ``exit_code``, print the error with ``say`` and continue. Other
    errors are raised. ``stamps`` is the value of :func:`table_stamps` before the page was last built.
    """
    throttle = Throttle(share=_MAX_BUILD_SHARE)
    while True:
        time.sleep(CHECK_SECONDS)
        current_stamps = table_stamps(sources)
        if current_stamps == stamps or not throttle.is_due():
            continue
        stamps = current_stamps
        with throttle.saving():
            try:
                rebuild()
            except Exception as error:
                if getattr(error, "exit_code", None) is None and not isinstance(error, OSError):  # a bug
                    raise
                say(f"the page was not updated: {error}")
