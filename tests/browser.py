"""Control a headless Chromium with the DevTools protocol over two pipes, without a further package."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--window-size=1280,900"),
    # Without these flags, Chromium slows down timers and rendering of background tabs.
    *("--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows"),
    "--disable-background-timer-throttling",
)
_LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_PATIENCE = 120.0
_KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), " ": (32, " "), "ArrowLeft": (37, "")} | {
    "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, "")
}  # fmt: skip
"""The number and the typed text of each named key."""


class Browser:
    """A running browser. It reads commands from file 3 and writes answers to file 4, each followed by a zero byte."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._last, self._rest = 0, b""

    def call(self, method: str, session: str | None = None, **given: Any) -> Any:
        """Send a command and return its result. Events that arrive before the result are ignored."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": given} | ({"sessionId": session} if session else {})
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], _PATIENCE)
            assert ready, "the browser does not answer"
            part = os.read(self._answers, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        content: dict[str, Any] = json.loads(line)
        return content

    def open(self, address: str) -> Page:
        """Load an address in a new tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        page.go(address)
        return page


@dataclass
class Page:
    """A tab. Selectors are CSS. Mouse and keyboard input is sent as events, as from a user."""

    browser: Browser
    session: str

    def go(self, address: str) -> None:
        """Load an address and wait until the page is complete."""
        self.call("Page.navigate", url=address)
        self.wait_for(f"location.href.split('#')[0] === {json.dumps(address.split('#')[0])}")
        self.wait_for("document.readyState === 'complete'")

    def call(self, method: str, **given: Any) -> Any:
        """Send a command to this tab and return its result."""
        return self.browser.call(method, self.session, **given)

    def ask(self, expression: str) -> Any:
        """Return the value of a JavaScript expression in the page."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        deadline = time.monotonic() + _PATIENCE
        while not self.ask(expression):
            assert time.monotonic() < deadline, f"never true: {expression}"
            time.sleep(0.05)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of the visible elements."""
        shown = f"[...document.querySelectorAll({json.dumps(selector)})].filter((node) => node.getClientRects().length)"
        found: list[str] = self.ask(f"{shown}.map((node) => node.textContent.trim())")
        return found

    def point(self, selector: str) -> None:
        """Move the mouse onto an element."""
        self._mouse("mouseMoved", selector)

    def click(self, selector: str) -> None:
        """Click on an element."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self._mouse(kind, selector)

    def type(self, text: str) -> None:
        """Type a text into the focused element."""
        self.call("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press one of the named keys, such as Escape."""
        number, text = _KEYS[key]
        event = {"key": key, "windowsVirtualKeyCode": number, "modifiers": 8 if shift else 0}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def _mouse(self, kind: str, selector: str) -> None:
        element = f"document.querySelector({json.dumps(selector)})"
        if kind == "mouseMoved":
            self.ask(f"{element}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
            time.sleep(0.1)
        box = self.ask(
            f"(({{x, y, width, height}}) => [x + width / 2, y + height / 2])({element}.getBoundingClientRect())"
        )
        button = {} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], **button)


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    """Start a browser with an empty profile, and end it after the block."""
    assert CHROMIUM is not None
    theirs, commands = os.pipe()
    answers, their_answers = os.pipe()
    # File numbers above 4, because the browser process needs 3 and 4.
    given = [fcntl.fcntl(number, fcntl.F_DUPFD, 10) for number in (theirs, their_answers)]
    memory = Path("/dev/shm")  # the browser syncs its profile to disk frequently
    place = memory if os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *map(str, given), CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for number in (theirs, their_answers, *given):
            os.close(number)
        browser = Browser(commands, answers)
        try:
            browser.call("Browser.getVersion")
            yield browser
            with contextlib.suppress(AssertionError, OSError):
                browser.call("Browser.close")
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()
            os.close(commands)
            os.close(answers)
