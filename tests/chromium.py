"""A headless Chromium that a test drives over DevTools' pipe, without any package for it."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ON_3_AND_4 = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for place, end in zip((3, 4), ends):
    os.dup2(end, place)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads commands from its descriptor 3 and answers on 4."""

needs_chromium = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium on this machine")


class Page:
    """One page of the browser."""

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._rest = b""
        self._ids = itertools.count(1)
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=1500, height=900, deviceScaleFactor=1, mobile=False)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """A DevTools command and its answer; events that come in between are passed over."""
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._message()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            got = os.read(self._receive, 1 << 16)
            assert got, "Chromium has ended"
            self._rest += got
        whole, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(whole)
        return found

    def open(self, url: str) -> None:
        """Go there; what the page does after it has loaded is waited for by :meth:`wait`."""
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression comes to."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self) -> str:
        """All that can be read on the page."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def wait(self, expression: str, *, patience: float = 180.0) -> Any:
        """The value of an expression as soon as it is true."""
        deadline = time.monotonic() + patience
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, f"it did not come true: {expression}\n{self.text()[:2000]}"
            time.sleep(0.1)
        return found

    def shows(self, text: str) -> None:
        """Wait until the text can be read on the page."""
        self.wait(f"(document.body ? document.body.innerText : '').includes({json.dumps(text)})")

    def type_into(self, selector: str, text: str) -> None:
        """Add the text to the input at a CSS selector, and press Enter."""
        self.wait(f"document.querySelector({json.dumps(selector)})?.focus() || 'there'")
        self.call("Input.insertText", text=text)
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **key)

    def screenshot(self, path: Path) -> None:
        """Write what is seen as a PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def chromium_page(folder: Path) -> Iterator[Page]:
    """A page of a browser with a profile in ``folder``; the browser ends with the block."""
    assert PROGRAM is not None
    to_read, to_send = os.pipe()
    from_read, from_send = os.pipe()
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command = [PROGRAM, *flags, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
    start = [sys.executable, "-c", _ON_3_AND_4, str(to_read), str(from_send), *command]
    with subprocess.Popen(
        start, pass_fds=(to_read, from_send), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        os.close(to_read)
        os.close(from_send)
        try:
            yield Page(to_send, from_read)
        finally:
            process.terminate()
            os.close(to_send)
            os.close(from_read)
