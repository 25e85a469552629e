"""Use the report page with the keyboard alone, and check the names and headers that a screen reader reads aloud."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, report, without_rendering
from tests.analysis.report.test_answers import write_answers
from tests.analysis.report.test_map_in_browser import TARGET, command, opened, rows
from tests.browser import CHROMIUM, Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")]

FOCUSED = "document.activeElement"
CONTROLS = {"button", "link", "combobox", "slider", "spinbutton", "checkbox", "searchbox", "textbox", "listbox"}
MANY = 300
NAMES = """
const stops = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
  .filter((node) => node.checkVisibility({visibilityProperty: true}) && !node.disabled);
stops.forEach((node, k) => { node.dataset.stop = k; });
"""


@pytest.fixture(scope="module")
def folder(make_sweep_once: MakeSweep) -> Path:
    """Four trials with a course and with answers, so that each part of the page has its controls."""
    reports = [report(str(i), step, step / 10, 0.1 * i) for i in range(4) for step in (10, 20, 30)]
    out = make_sweep_once(rows(), reports, baseline=TARGET, items=dict.fromkeys(TARGET, 400), settings={"base": {}})
    write_answers(out, "target-0011", {"forget": ["It was Ada Obi."] * 3, "retain": ["It was Bo."] * 3})
    for i in range(4):
        write_answers(out, str(i), {"forget": [f"Nobody knows {i}."] * 3, "retain": ["It was Bo."] * 3})
    with without_rendering():
        write_report(out)
    return out


def tab_to(page: Page, selector: str, *, back: bool = False) -> None:
    """Press Tab, or Shift and Tab, until the element has the focus, and check that the focus can be seen."""
    for _ in range(MANY):
        page.press("Tab", shift=back)
        assert page.ask(f"{FOCUSED} === document.body || getComputedStyle({FOCUSED}).outlineStyle !== 'none'")
        if page.ask(f"{FOCUSED}.matches({selector!r})"):
            return
    pytest.fail(f"Tab does not reach {selector}")


def test_a_person_without_a_mouse_chooses_reads_votes_and_copies_the_command(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder)
    # The axes.
    before = page.ask("document.getElementById('map-x').value")
    tab_to(page, "#map-x")
    page.press("ArrowDown")
    page.wait_for(f"document.getElementById('map-x').value !== {before!r}")
    assert page.ask(f"{FOCUSED}.id") == "map-x"
    # A threshold: the bound on facts told of the forget set becomes stricter.
    assert page.texts("tr.chosen .tag") == ["recommended"]
    tab_to(page, "#decide-thresholds input[type=range]")
    for _ in range(MANY):
        page.press("ArrowLeft")
        if page.texts("tr.chosen .tag") == ["closest"]:
            break
    assert page.ask(f"{FOCUSED}.type") == "range"
    assert "closest" in page.texts("#decide-outcome")[0]
    tab_to(page, "#decide-reset")
    page.press("Enter")
    assert page.texts("tr.chosen .tag") == ["recommended"]
    # Two pins and a choice in the table, which keeps the focus.
    page.ask("[...sweeper.pinned].forEach(sweeper.unpin)")
    for key in ("3@3", "0@3"):
        tab_to(page, f"[data-pin='{key}']")
        page.press(" ")
        assert page.ask(f"{FOCUSED}.dataset.pin") == key
    assert page.ask("sweeper.pinned") == ["3@3", "0@3"]
    tab_to(page, "[data-pick='3@3']", back=True)
    page.press("Enter")
    assert command(page).endswith("--trial 3 --epoch 3")
    # The command.
    tab_to(page, "#decide-copy", back=True)
    page.press("Enter")
    page.wait_for("document.getElementById('decide-copied').textContent !== ''")
    # A vote.
    tab_to(page, ".read-blind")
    page.press(" ")
    assert page.ask(f"{FOCUSED}.matches('.read-blind')")
    tab_to(page, ".ballot button")
    page.press("Enter")
    assert page.ask(f"{FOCUSED}.getAttribute('aria-pressed')") == "true"
    assert "1 vote " in page.texts(".read-status")[0]
    # The row of a trial.
    tab_to(page, "#trials > summary")
    page.press("Enter")
    tab_to(page, "#trials tbody th button")
    page.press("Enter")
    page.wait_for("document.querySelectorAll('#trials tr.detail .chart svg').length > 0")
    assert page.ask("wrong") == []


def test_the_tab_key_visits_every_control_and_leaves_the_page(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder)
    page.ask(f"{{ {NAMES} }}")
    count = page.ask("document.querySelectorAll('[data-stop]').length")
    assert count > 40
    visited: list[str | None] = []
    for _ in range(count + 10):
        page.press("Tab")
        visited.append(page.ask(f"{FOCUSED}.dataset.stop ?? null"))
        if len(visited) > 1 and visited[-1] == visited[0]:
            break
    assert {int(stop) for stop in visited if stop is not None} == set(range(count))


def test_every_control_has_a_name_and_every_table_has_headers(browser: Browser, folder: Path) -> None:
    page = opened(browser, folder)
    page.ask("for (const part of document.querySelectorAll('details')) part.open = true")
    page.ask("document.querySelector('.read-blind').click()")
    page.call("Accessibility.enable")
    nodes: list[Any] = page.call("Accessibility.getFullAXTree")["nodes"]
    named = [
        (node["role"]["value"], node.get("name", {}).get("value", "").strip())
        for node in nodes
        if not node["ignored"] and node["role"]["value"] in CONTROLS
    ]
    assert len(named) > 40
    assert not [role for role, name in named if not name]
    assert page.ask(
        "[...document.querySelectorAll('table')].filter((table) => !table.tHead || "
        "![...table.tHead.rows[0].cells].every((cell) => cell.tagName === 'TH' && cell.scope === 'col')).length"
    ) == 0  # fmt: skip
    heads = "[...document.querySelectorAll('#decide-body tr, #trials tbody tr')].map((row) => row.cells[0])"
    scopes = page.ask(f"{heads}.map((cell) => `${{cell.tagName}} ${{cell.scope}}`)")
    assert len(scopes) > 4
    assert set(scopes) == {"TH row"}
    # The chart has a text alternative that names the table with the same values.
    chart = "document.querySelectorAll('#map-chart, #map-chart [aria-label]')"
    labels = page.ask(f"[...{chart}].map((node) => node.ariaLabel || '')")
    assert any("4 models. The table below has the same values." in label for label in labels)
