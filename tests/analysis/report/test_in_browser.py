"""Using report.html in a browser: pointing, clicking, sorting, filtering, following links, printing."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.report.report import write_report
from sweeper.cli.page_server import serving
from tests.analysis.conftest import MakeSweep, report, trial, without_rendering
from tests.browser import CHROMIUM, Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")]

ROWS = "#trials tr.line"
DETAIL = "#trials tr.detail"
LISTENING = """
window.wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
addEventListener("securitypolicyviolation", (event) => wrong.push(event.blockedURI));
"""


@pytest.fixture(scope="module")
def folder(make_sweep_once: MakeSweep) -> Path:
    """Three trials on the frontier, one that is dominated, one that diverged."""
    rows = [
        trial("00000", 7.0, 0.9, verbmem=0.05, utility=0.7),
        trial("00001", 3.0, 0.2, method="gdiff", c=0.5, verbmem=0.4, utility=0.9),
        trial("00002", 2.0, 0.5, method="gdiff", c=0.9, verbmem=0.5, utility=0.8),
        trial("00003", None, None, status="diverged", error="nan at step 12", checkpoint=""),
        trial("00004", 10.0, 3.0, lr=1e-3, verbmem=0.01, utility=0.1),
    ]
    reports = [report(f"0000{i}", step, step / 10, 0.1) for i in range(3) for step in (10, 20, 30)]
    out = make_sweep_once(rows, reports)
    with without_rendering():
        write_report(out)
    return out


@pytest.fixture
def page(browser: Browser, folder: Path) -> Page:
    found = browser.open((folder / "report.html").as_uri())
    found.click("#frontier > summary")
    found.click("#trials > summary")
    return found


def ids(page: Page) -> list[str]:
    return page.texts(f"{ROWS} th")


def link_to(trial_id: str) -> str:
    return f"#frontier a[href='#trial-{int(trial_id)}']"


def test_the_link_of_a_trial_unfolds_its_row_with_the_charts_of_its_course(page: Page) -> None:
    page.click("#trials > summary")
    assert page.texts(DETAIL) == []
    page.click(link_to("00001"))
    page.wait_for(f"document.querySelectorAll('{DETAIL} .chart svg').length === 1")
    (detail,) = page.texts(DETAIL)
    assert "checkpoints/00001" in detail
    assert page.texts("tr.line.open th") == ["00001"]
    assert page.ask(
        "((b) => b.top >= 0 && b.bottom <= innerHeight)(document.querySelector('tr.open').getBoundingClientRect())"
    )
    assert page.texts(f"{DETAIL} .chart svg .role-title text") == ["Losses (nats), log scale"]
    # The lines start at the target, before the first epoch.
    assert "0.0" in page.texts(f"{DETAIL} .chart svg .role-axis-label text")
    assert page.ask(f"document.querySelectorAll('{DETAIL} [aria-label=\"the loss of a random guess\"]').length") == 1
    # The command of a model links to the row of its trial, too.
    page.click("[data-pick='00000@3']")
    page.click("#decide-command-of a")
    assert page.texts("tr.line.open th") == ["00000", "00001"]


def test_a_column_sorts_by_value_both_ways_with_empty_cells_last(page: Page) -> None:
    column = 1 + page.texts("#trials th").index("forget loss")
    for header, way, expected in (
        (column, "ascending", ["00002", "00001", "00000", "00004", "00003"]),  # 10 is more than 2
        (column, "descending", ["00004", "00000", "00001", "00002", "00003"]),
        (1, "ascending", ["00000", "00001", "00002", "00003", "00004"]),
    ):
        page.click(f"#trials th:nth-child({header}) button")
        assert page.ask(f"document.querySelector('#trials th:nth-child({header})').getAttribute('aria-sort')") == way
        assert ids(page) == expected
    assert page.ask("document.querySelectorAll('#trials th[aria-sort]').length") == 1


def test_filters_narrow_the_table_and_count_what_is_shown(page: Page) -> None:
    assert page.texts("#count") == ["5 of 5 shown"]
    page.click("#search")
    page.type("gdiff")
    assert ids(page) == ["00001", "00002"], "gdiff is not ngdiff"
    page.type(" 0.9")
    assert page.texts("#count") == ["2 of 5 shown"]  # a utility of 0.9, and a c
    page.click("#front-only")
    assert ids(page) == ["00001"]
    page.ask("Object.assign(document.getElementById('search'), {value: ''}).dispatchEvent(new Event('input'))")
    page.click("#front-only")
    page.ask("Object.assign(document.getElementById('status'), {value: 'diverged'}).dispatchEvent(new Event('input'))")
    assert ids(page) == ["00003"]
    page.click(link_to("00001"))  # a point of a hidden trial shows all trials
    assert page.texts("#count") == ["5 of 5 shown"]


def test_trials_and_the_parts_of_the_page_have_addresses_and_no_script_fails(browser: Browser, folder: Path) -> None:
    page = browser.open("about:blank")
    page.call("Page.enable")
    page.call("Page.addScriptToEvaluateOnNewDocument", source=LISTENING)
    page.go(f"{(folder / 'report.html').as_uri()}#trial-2")
    assert page.texts("tr.line.open th") == ["00002"]
    assert len(page.texts(DETAIL)) == 1
    assert not page.ask("document.getElementById('rerun').open")
    page.go(f"{(folder / 'report.html').as_uri()}#rerun")
    page.wait_for("document.getElementById('rerun').open")
    assert page.ask("wrong") == []
    assert page.ask("performance.getEntriesByType('resource').length") == 0


def test_a_served_page_reloads_and_keeps_what_was_opened(browser: Browser, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "report.html"
    copy.write_text((folder / "report.html").read_text(encoding="utf-8"), encoding="utf-8")
    with serving(copy, port=0) as address:
        page = browser.open(address)
        page.click("#trials > summary")
        page.click("#search")
        page.type("gdiff")
        page.click("#trial-2 td:nth-child(2)")
        page.ask("(async () => { await fetch('/made'); window.before = true; })()")
        page.wait_for(
            "performance.getEntriesByType('resource').filter((item) => item.name.endsWith('/made')).length > 1"
        )
        text = copy.read_text(encoding="utf-8")
        copy.write_text(text.replace("<h1", "<h1 data-new='yes'", 1), encoding="utf-8")
        page.wait_for("document.readyState === 'complete' && document.querySelector('h1[data-new]') !== null")
        assert page.ask("window.before") is None
        assert ids(page) == ["00001", "00002"]
        assert page.texts("tr.line.open th") == ["00002"]
        page.go("about:blank")
