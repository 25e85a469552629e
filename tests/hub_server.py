"""Run a local Hugging Face hub for tests: ``python tests/hub_server.py FOLDER`` prints its address.

The server serves ``FOLDER/models/ORG/NAME`` and ``FOLDER/datasets/ORG/NAME`` with the part of the hub's protocol that
``huggingface_hub``, ``transformers`` and ``datasets`` use to read: repository information, file trees, and files with
commit and etag. The commit of a repository is a hash of its files, so a changed file means a new commit. If a
repository has a file ``.gated``, requests for its files get the status in this file, like 401 or 403 of the hub if the
terms are not accepted. The server ends when its standard input is closed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

GATED = ".gated"


class Refused(Exception):
    """A response other than 200, with the hub's error code."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"X-Error-Code": code, "X-Error-Message": message, **headers}


class Repository:
    """A folder served as a repository with one branch (main) and one commit."""

    def __init__(self, root: Path, kind: str, name: str) -> None:
        self.folder = root / kind / name
        if not self.folder.is_dir():
            # The hub also answers 401 without a login, so that private repositories look like missing ones.
            raise Refused(401, "RepoNotFound", "Repository not found")
        self.name = name
        self.files = sorted(
            path.relative_to(self.folder).as_posix()
            for path in self.folder.rglob("*")
            if path.is_file() and path.name != GATED
        )

    def etag(self, file: str) -> str:
        return hashlib.sha256((self.folder / file).read_bytes()).hexdigest()

    @property
    def commit(self) -> str:
        content = "".join(f"{file}\0{self.etag(file)}\n" for file in self.files)
        return hashlib.sha1(content.encode()).hexdigest()

    def check(self, revision: str) -> None:
        if unquote(revision) not in ("main", self.commit):
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    def entry(self, file: str) -> dict[str, object]:
        size = (self.folder / file).stat().st_size
        return {"type": "file", "path": file, "size": size, "oid": self.etag(file)[:40]}

    def tree(self, below: str, *, recursive: bool) -> list[dict[str, object]]:
        prefix = f"{below.strip('/')}/" if below.strip("/") else ""
        inside = [file for file in self.files if file.startswith(prefix)]
        if prefix and not inside:
            raise Refused(404, "EntryNotFound", f"{below} does not exist on main", **{"X-Repo-Commit": self.commit})
        return [self.entry(file) for file in inside if recursive or "/" not in file.removeprefix(prefix)]

    def information(self) -> dict[str, object]:
        return {
            "_id": self.commit[:24],
            "id": self.name,
            "modelId": self.name,
            "sha": self.commit,
            "private": False,
            "disabled": False,
            "gated": "manual" if (self.folder / GATED).exists() else False,
            "downloads": 0,
            "likes": 0,
            "tags": [],
            "siblings": [{"rfilename": file} for file in self.files],
        }


class Handler(BaseHTTPRequestHandler):
    """Answers one request with JSON or a file."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_GET(self) -> None:
        self._answer(b"")

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def _answer(self, body: bytes) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        try:
            if match := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(.*))?", path):
                self._json(self._api(Repository(self.root, match[1], match[2]), match[3] or "", url.query, body))
            elif match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
                kind = "datasets" if match[1] else "models"
                self._file(Repository(self.root, kind, match[2]), match[3], match[4])
            else:
                raise Refused(404, "NotFound", f"no such page: {path}")
        except Refused as refusal:
            self._send(refusal.status, json.dumps({"error": str(refusal)}).encode(), **refusal.headers)

    def _api(self, repository: Repository, rest: str, query: str, body: bytes) -> Any:
        what, _, after = rest.partition("/")
        revision, _, below = after.partition("/")
        if what in ("", "revision"):
            repository.check(revision or "main")
            return repository.information()
        repository.check(revision)
        if what == "tree":
            return repository.tree(below, recursive="true" in parse_qs(query.lower()).get("recursive", []))
        if what == "paths-info":
            wanted = json.loads(body)["paths"] if body.startswith(b"{") else parse_qs(body.decode()).get("paths", [])
            return [repository.entry(file) for file in wanted if file in repository.files]
        raise Refused(404, "NotFound", f"no such page: {rest}")

    def _file(self, repository: Repository, revision: str, file: str) -> None:
        if (gate := repository.folder / GATED).exists():
            status = int(gate.read_text())
            raise Refused(status, "GatedRepo", f"Access to {repository.name} is restricted: its terms are not accepted")
        repository.check(revision)
        commit = {"X-Repo-Commit": repository.commit}
        if file not in repository.files:
            raise Refused(404, "EntryNotFound", f"{file} does not exist on main", **commit)
        content = (repository.folder / file).read_bytes()
        headers = {**commit, "ETag": f'"{repository.etag(file)}"', "Accept-Ranges": "bytes"}
        if match := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            first, last = int(match[1]), min(int(match[2] or len(content)), len(content) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            self._send(206, content[first : last + 1], **headers)
        else:
            self._send(200, content, **headers)

    def _json(self, content: Any) -> None:
        self._send(200, json.dumps(content).encode(), **{"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve(folder: Path) -> ThreadingHTTPServer:
    """Return a running server for the folder on a free port of the loopback address."""
    handler = type("FolderHandler", (Handler,), {"root": folder})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    running = serve(Path(sys.argv[1]))
    print(f"http://127.0.0.1:{running.server_address[1]}", flush=True)
    sys.stdin.read()
