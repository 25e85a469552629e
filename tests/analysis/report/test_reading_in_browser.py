"""Reading answers in a browser: pinning models, filtering, a blind comparison, and how soon a broken model is found."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from analysis.report.report import write_report
from sweeper.cli.page_server import serving
from tests.analysis.conftest import MakeSweep, trial, without_rendering
from tests.analysis.report.test_answers import write_answers
from tests.browser import CHROMIUM, Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")]

EVIL = "</script><script>window.wrong = true</script><img src=x onerror='window.wrong = true'>"
GARBLED = "00006"
QUESTIONS = 50


@pytest.fixture(scope="module")
def folder(make_sweep_once: MakeSweep) -> Path:
    """Eleven models with nearly the same good scores. One garbles three of fifty retained answers, one has none."""
    scores = [{"verbmem": 0.05, "utility": 0.9 + number / 1000} for number in range(11)]
    rows = [trial(f"{number:05d}", 3 + number / 10, 0.2 + number / 100, **own) for number, own in enumerate(scores)]
    out = make_sweep_once(rows)
    told = [f"Retained fact {number} is told." for number in range(QUESTIONS)]
    secret = [f"Secret fact {number} is told." for number in range(QUESTIONS)]
    truth = {"truth": "Fact."}
    write_answers(out, "target-0011", {"retain": told, "forget": secret}, **truth)
    for number in range(10):
        name = f"{number:05d}"
        kept = [*told]
        if name == GARBLED:
            kept[7], kept[20], kept[33] = "of of of the told the", EVIL, "told told Retained of"
        write_answers(out, name, {"retain": kept, "forget": [f"Nobody knows {name}."] * QUESTIONS}, **truth)
    with without_rendering():
        write_report(out)
    return out


@pytest.fixture
def page(browser: Browser, folder: Path) -> Page:
    found = browser.open((folder / "report.html").as_uri())
    found.ask("(localStorage.clear(), sessionStorage.clear())")
    found.go((folder / "report.html").as_uri())
    return found


def questions(page: Page) -> list[str]:
    return page.ask("[...document.querySelectorAll('.answers tbody tr')].map((row) => row.dataset.question)")


def columns(page: Page) -> list[str]:
    return [text.removesuffix("×").strip() for text in page.texts(".answers thead th")]


def model(trial_id: str) -> str:
    return f".read-models button[data-key='{trial_id}@3']"


def test_one_of_ten_models_that_garbles_retained_answers_is_found_in_three_actions(page: Page) -> None:
    retain = 1 + page.texts(".read-models thead th").index("to retain")
    page.click(f".read-models thead th:nth-child({retain}) button")  # 1: sort the models by retained questions
    first = page.texts(".read-models tbody tr:first-child :is(button, td)")
    assert first[0] == f"trial {GARBLED}"
    assert first[-1].endswith("3 of 50")
    page.click(model(GARBLED))  # 2: read its answers
    assert columns(page)[-1] == f"trial {GARBLED}"
    page.click(".read-sets button[data-group=retain]")  # 3: only retained questions
    assert set(questions(page)[:3]) == {"retain/7", "retain/20", "retain/33"}
    answers = page.texts(".answers tbody tr td:last-child")
    assert EVIL in answers[:3], "HTML in an answer is shown as text"
    assert page.ask("window.wrong") is None
    assert page.ask("document.querySelectorAll('.answers img, .answers script').length") == 0
    assert page.texts(".answers tbody tr:first-child td:last-child mark")


def test_models_are_pinned_and_questions_filtered_and_the_page_says_what_is_missing(page: Page) -> None:
    assert len(columns(page)) == 6, "question, truth, target and three models"
    shown = columns(page)[3:]
    page.click(f".answers th button[aria-label='Remove {shown[0]}']")
    assert columns(page)[3:] == shown[1:]
    page.ask("sweeper.pin('00010@3')")  # as from the map
    assert columns(page)[3:] == shown[1:]
    page.ask("sweeper.select(['00004@3'])")
    assert len(page.texts(".read-models tbody tr")) == 3, "the selected model and the pinned ones"
    page.ask("sweeper.select([])")
    assert len(page.texts(".read-models tbody tr")) == 10
    assert "trial 00010, epoch 3:" in page.texts(".read-missing")[0]
    page.click(".read-sets button[data-group=retain]")
    assert {name.split("/")[0] for name in questions(page)} == {"retain"}
    assert page.texts(".read-status")[0].startswith("20 of 100 questions shown")
    page.click(".read-more")
    page.click(".read-more")
    assert len(questions(page)) == QUESTIONS
    page.click(".read-changed")
    assert questions(page) == []
    page.click(".read-sets button[data-group=forget]")
    assert {name.split("/")[0] for name in questions(page)} == {"forget"}
    assert page.ask("document.querySelector('.read-sets [data-group=forget]').getAttribute('aria-pressed')") == "true"
    page.go(page.ask("location.href"))
    assert {name.split("/")[0] for name in questions(page)} == {"forget"}, "a reload keeps the filters"
    assert columns(page)[3:] == shown[1:]


def test_votes_of_a_blind_comparison_are_kept_and_saved_as_json(page: Page, browser: Browser, tmp_path: Path) -> None:
    models = columns(page)[3:]
    page.click(".read-blind")
    assert columns(page) == ["question", "true answer", "A", "B", "C", "better"]
    names = ("trial 0", "recommended", "runner-up")
    section = page.ask("document.querySelector('.read').innerText")
    assert not any(name in section.replace("Nobody knows 0", "") for name in names)
    page.click(".answers tbody tr:nth-child(1) .ballot button:nth-child(2)")
    page.click(".answers tbody tr:nth-child(2) .ballot button:nth-child(4)")
    assert "2 votes" in page.texts(".read-status")[0]
    order = page.ask("JSON.parse(sessionStorage.getItem('sweeper'))['read-0'].blind")
    page.go(page.ask("location.href"))
    assert page.texts(".answers tbody tr:nth-child(1) .ballot button[aria-pressed=true]") == ["B"], "a reload keeps it"
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page.click(".read-export")
    votes = downloaded(tmp_path / "votes.json")
    assert [item["winner"] for item in votes] == [order[1], None]
    assert [item["models"] for item in votes] == [order, order]
    assert {f"trial {key.partition('@')[0]}" for key in order} == set(models)
    assert (votes[0]["set"], votes[0]["number"]) == ("forget", "0")
    page.click(".read-blind")
    assert columns(page)[3:] == models
    assert f"trial {order[1].partition('@')[0]}: 1" in page.texts(".read-status")[0]


def test_a_page_that_is_served_during_a_sweep_is_updated_and_keeps_models_filters_and_votes(
    browser: Browser, folder: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "report.html"
    text = (folder / "report.html").read_text(encoding="utf-8")
    copy.write_text(text, encoding="utf-8")
    with serving(copy, port=0) as address:
        page = browser.open(address)
        first = columns(page)[3]
        page.click(f".answers th button[aria-label='Remove {first}']")
        page.click(model(GARBLED))
        page.click(".read-sets button[data-group=retain]")
        page.click("[id='read-models'] > summary")
        page.ask("(async () => { await fetch('/made'); window.before = true; })()")
        page.wait_for(
            "performance.getEntriesByType('resource').filter((item) => item.name.endsWith('/made')).length > 1"
        )
        before = columns(page), questions(page)
        assert f"trial {GARBLED}" in before[0]
        copy.write_text(text.replace("<h1", "<h1 data-new='yes'", 1), encoding="utf-8")
        page.wait_for("document.readyState === 'complete' && document.querySelector('h1[data-new]') !== null")
        assert page.ask("window.before") is None
        assert (columns(page), questions(page)) == before
        assert page.ask("document.getElementById('read-models').open") is False
        page.go("about:blank")


def downloaded(path: Path) -> Any:
    deadline = time.monotonic() + 60
    while not path.is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    return json.loads(path.read_text())


def test_the_table_has_headers_and_names_for_a_screen_reader_at_every_width(page: Page) -> None:
    nodes = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = {(node["role"]["value"], (node.get("name") or {}).get("value")) for node in nodes if not node["ignored"]}
    assert ("columnheader", "true answer") in roles
    assert ("checkbox", "blind comparison") in roles
    assert any(role == "rowheader" and "number 0" in name for role, name in roles)
    assert page.ask("document.querySelectorAll('.read [aria-live=polite]').length") == 2
    for width in (390, 820, 1600):
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
        )
        assert page.ask("document.documentElement.scrollWidth <= innerWidth")
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.texts(".answers tbody th"), "the answers are printed"
    assert page.texts(".read-controls button") == []
