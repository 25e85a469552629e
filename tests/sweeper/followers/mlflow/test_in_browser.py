"""MLflow's UI in a browser: the pages that ``ui`` prints show the models and the trials of a sweep."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.browser import CHROMIUM, Browser, Page, browsing
from tests.sweeper.followers.mlflow.conftest import EARLY, ENVIRONMENT, KEPT, Sweep

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")]

_SORT = "button[data-component-id='mlflow.logged_model.list.sort']"
_ROWS = "[...document.querySelectorAll('.ag-pinned-left-cols-container [role=row]')]"
_NAMES = (
    f"{_ROWS}.sort((a, b) => a.getAttribute('row-index') - b.getAttribute('row-index'))"
    ".map((row) => row.querySelector('a') && row.querySelector('a').textContent.trim()).join()"
)


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture
def pages(trained: Sweep) -> Iterator[dict[str, str]]:
    """The addresses of the pages of a sweep that has ended, by kind, as printed by a running ``ui``."""
    session = trained.open(kept=KEPT, columns=("verbmem", "utility", "retain_loss"))
    assert session.finish(front=[("00001", 2.0)], recommended=EARLY).pending == 0
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "sweeper", "ui", "--tracking-uri", trained.uri, "--port", str(port)]
    command.append("--no-browser")
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as ui:
        try:
            assert ui.stdout is not None
            lines = [ui.stdout.readline().split() for _ in range(4)]
            assert lines[1] == ["my", "sweep"]
            (_, models), (_, trials) = lines[2:]
            yield {"models": models, "trials": trials}
        finally:
            ui.send_signal(signal.SIGINT)
            ui.wait(60)


def wait_for_names(page: Page, names: list[str]) -> None:
    page.wait_for(f"{_NAMES} === '{','.join(names)}'")


def test_the_page_of_models_can_be_sorted_and_has_the_recommended_model_first(
    browser: Browser, pages: dict[str, str]
) -> None:
    page = browser.open("about:blank")
    page.call("Emulation.setDeviceMetricsOverride", width=2400, height=1000, deviceScaleFactor=1, mobile=False)
    page.go(pages["models"])
    others = [f"{trial_id} epoch {epoch}" for trial_id in ("00000", "00001") for epoch in (1, 2, 3)]
    others.remove("00001 epoch 2")
    page.wait_for(f"{_NAMES}.split(',').length === 6")
    newest_first = page.ask(_NAMES).split(",")
    assert newest_first[0] == "00001 epoch 2"
    assert sorted(newest_first[1:]) == others
    page.click(_SORT)
    wait_for_names(page, newest_first[::-1])
    page.click(_SORT)
    wait_for_names(page, newest_first)
    page.ask(f"{_ROWS}.find((row) => row.textContent.includes('00001 epoch 2')).querySelector('a').click()")
    page.wait_for(f"document.body.textContent.includes({EARLY.description!r})")


def test_the_page_of_trials_lists_those_of_the_sweep_with_its_objectives_and_primary_metrics(
    browser: Browser, pages: dict[str, str]
) -> None:
    page = browser.open("about:blank")
    page.call("Emulation.setDeviceMetricsOverride", width=2400, height=1000, deviceScaleFactor=1, mobile=False)
    page.go(pages["trials"])
    page.wait_for(f"{_NAMES}.includes('00000') && {_NAMES}.includes('00001')")
    assert len(page.ask(_NAMES).split(",")) == 2
    assert {"verbmem", "utility", "retain_loss", "lr", "method"} <= set(page.texts("[role=columnheader]"))
