"""Choosing on the report page in a browser: axes, brush, thresholds, pins, and the command that picks the model."""

from __future__ import annotations

import itertools
import shlex
from pathlib import Path

import pytest

from analysis.report.report import write_report
from tests.analysis.conftest import MakeSweep, Row, trial
from tests.analysis.report.test_answers import write_answers
from tests.browser import CHROMIUM, Browser, Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine"),
    pytest.mark.usefixtures("blank_figures"),
]

LISTENING = """
window.wrong = [];
addEventListener("error", (event) => wrong.push(event.message));
addEventListener("unhandledrejection", (event) => wrong.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => wrong.push(event.blockedURI));
"""
TARGET = {"forget_loss": 0.04, "forget_loss_capped": 0.04, "retain_loss": 0.05} | {
    "verbmem": 0.95,
    "utility": 0.8,
    "forget_fact_recall": 1.0,
    "retain_fact_recall": 0.9,
}


LABELS = "[...document.querySelectorAll('#map-chart .mark-text.role-mark text')].filter((node) => node.textContent)"
GOOD = {"forget_fact_recall": 0.1, "retain_fact_recall": 0.88, "utility": 0.88}


def rows() -> list[Row]:
    """Return four trials: 1 and 2 are good, 3 forgets too little, and 0 keeps too little."""
    recalls = ((0.0, 0.5), (0.1, 0.88), (0.14, 0.84), (0.3, 0.9))
    return [
        trial(str(i), 8.0 - 2 * i, 2.0 - 0.6 * i, forget_fact_recall=forget, retain_fact_recall=keep, utility=keep)
        for i, (forget, keep) in enumerate(recalls)
    ]


def opened(browser: Browser, out: Path) -> Page:
    """Open the report of a sweep, and wait until its chart is drawn."""
    page = browser.open("about:blank")
    page.call("Page.enable")
    page.call("Page.addScriptToEvaluateOnNewDocument", source=LISTENING)
    page.go((out / "report.html").as_uri())
    page.wait_for("!document.getElementById('map') || document.getElementById('map').dataset.ready !== undefined")
    return page


def put(page: Page, selector: str, value: object) -> None:
    """Set the value of a control, as a user does."""
    node = f"document.querySelector({selector!r})"
    page.ask(f"Object.assign({node}, {{value: {str(value)!r}}}).dispatchEvent(new Event('input', {{bubbles: true}}))")


def models(page: Page) -> list[str]:
    return page.texts("#decide-body [data-pick]")


def command(page: Page) -> str:
    (text,) = page.texts("#decide-command")
    return text


@pytest.fixture
def out(make_sweep: MakeSweep) -> Path:
    folder = make_sweep(rows(), baseline=TARGET, items=dict.fromkeys(TARGET, 400), settings={"base": {}})
    write_report(folder)
    return folder


def test_a_person_chooses_axes_brushes_moves_a_threshold_pins_and_copies_the_command(
    browser: Browser, out: Path
) -> None:
    page = opened(browser, out)
    assert page.texts("#map-count") == ["4 of 4 models drawn."]
    assert len(models(page)) == 4
    assert command(page).endswith("out --trial 1 --epoch 3")
    assert page.texts("tr.chosen .tag") == ["recommended"]
    # Axes: a column with values for all models, on a logarithmic scale that cannot show 0.
    put(page, "#map-x", "forget_fact_recall")
    put(page, "#map-x-scale", "log")
    page.wait_for("document.getElementById('map').dataset.ready === '3'")
    assert page.texts("#map-count") == [
        "3 of 4 models drawn; 1 are not above 0, so a logarithmic axis cannot show them."
    ]
    put(page, "#map-x-scale", "linear")
    page.wait_for("document.getElementById('map').dataset.ready === '4'")

    # A brush over the plot from 0.12 to 1 selects the models with a high recall of forgotten facts.
    page.point("#map-chart")
    x, y, width, height = page.ask(
        "(({x, y, width, height}) => [x, y, width, height])"
        "(document.querySelector('#map-chart .background').getBoundingClientRect())"
    )
    mouse = [
        ("mousePressed", x + 0.12 * width, y + 4),
        ("mouseMoved", x + 0.7 * width, y + 0.5 * height),
        ("mouseMoved", x + width - 4, y + height - 4),
        ("mouseReleased", x + width - 4, y + height - 4),
    ]
    for kind, left, top in mouse:
        page.call("Input.dispatchMouseEvent", type=kind, x=left, y=top, button="left", buttons=1, clickCount=1)
    page.wait_for("sweeper.selected.length > 0")
    assert sorted(page.ask("sweeper.selected")) == ["2@3", "3@3"]
    assert sorted(models(page)) == ["2 @ 3", "3 @ 3"]
    page.click("#map-clear")
    assert len(models(page)) == 4

    # A stricter threshold on forgetting leaves only the model that keeps too little.
    put(page, "#decide-thresholds .threshold:nth-child(1) input[type=number]", 0.05)
    assert "closest" in page.texts("#decide-outcome")[0]
    assert page.texts("tr.chosen .tag") == ["closest"]
    page.wait_for("[...document.querySelectorAll('#map-chart text')].some((node) => node.textContent === 'closest')")
    put(page, "#decide-thresholds .threshold:nth-child(2) input[type=number]", 0.4)
    assert page.texts("#decide-outcome")[0].startswith("Recommended trial 0, epoch 3")
    assert shlex.split(command(page)) == ["python", "-m", "sweeper", "pick", str(out), "--trial", "0", "--epoch", "3"]
    assert [text for text in page.texts("#decide-body td:nth-child(3)") if "✗" in text] == [
        "✗ facts told of the forget set"
    ] * 3
    page.click("#decide-reset")
    assert command(page).endswith("--trial 1 --epoch 3")

    # A click in the table gives the command of that model, and pins are shared with the other parts of the page.
    page.click("[data-pick='3@3']")
    assert command(page).endswith("--trial 3 --epoch 3")
    page.click("[data-pin='3@3']")
    page.click("[data-pin='0@3']")
    assert page.ask("sweeper.pinned") == ["3@3", "0@3"]
    page.ask("window.copied = []; document.addEventListener('copy', () => copied.push(String(getSelection())))")
    page.click("#decide-copy")
    page.wait_for("document.getElementById('decide-copied').textContent !== ''")
    assert page.ask("wrong") == []

    # A reload keeps the pins, the clicked model and the axes.
    page.call("Page.reload")
    page.wait_for("document.readyState === 'complete' && document.getElementById('map').dataset.ready !== undefined")
    assert page.ask("sweeper.pinned") == ["3@3", "0@3"]
    assert page.ask("document.getElementById('map-x').value") == "forget_fact_recall"
    assert command(page).endswith("--trial 3 --epoch 3")


def test_losses_have_the_line_of_a_guess_and_scores_have_arrows_to_those_after_attacks(
    browser: Browser, make_sweep: MakeSweep
) -> None:
    attacked = {"fact_recall_after_int8": 0.6, "retain_fact_recall_after_int8": 0.7, "fact_recall_after_nf4": 0.4}
    table = [rows()[0], rows()[1] | attacked, rows()[2] | {"fact_recall_after_int8": 0.9}]
    folder = make_sweep(table, baseline=TARGET)
    write_report(folder)
    page = opened(browser, folder)
    guesses = "document.querySelectorAll('#map-chart [aria-label=\"the loss of a random guess\"]').length"
    assert page.ask(guesses) == 1, "all retain losses are far below that of a guess"
    put(page, "#map-x", "forget_fact_recall")
    put(page, "#map-y", "retain_fact_recall")
    page.wait_for("document.getElementById('map-marks').textContent.includes('attacks: int8, nf4.')")
    assert page.ask(guesses) == 0
    arrows = "[...document.querySelectorAll('#map-chart .mark-rule.role-mark')].flatMap((node) => [...node.children])"
    boxes = page.ask(f"{arrows}.map((node) => node.getBoundingClientRect()).map((box) => [box.width, box.height])")
    sizes = sorted([width > 9, height > 9] for width, height in boxes)
    # After int8, trial 1 tells more of both sets. After nf4, and in trial 2, what is kept was not measured again.
    assert sizes == [[True, False], [True, False], [True, True]]
    heads = "[...document.querySelectorAll('#map-chart [aria-label$=\"after int8\"]')]"
    turns = dict(page.ask(f"{heads}.map((node) => [node.ariaLabel, node.getAttribute('transform')])"))
    assert set(turns) == {"trial 1, epoch 3 after int8", "trial 2, epoch 3 after int8"}
    assert turns["trial 2, epoch 3 after int8"].endswith("rotate(90)"), "the head points to the right, as the arrow"


def test_the_labels_of_near_models_do_not_overlap(browser: Browser, make_sweep: MakeSweep) -> None:
    near = [trial(str(i), 6.0 + 1e-3 * i, 0.8 + 1e-3 * i, **GOOD) for i in range(3)]
    folder = make_sweep([*near, trial("3", 1.0, 3.0, **GOOD)], baseline=TARGET)
    write_report(folder)
    page = opened(browser, folder)
    page.ask("['0@3', '1@3', '2@3'].forEach(sweeper.pin)")
    page.wait_for(f"{LABELS}.length === 5")
    top_by_name = dict(page.ask(f"{LABELS}.map((node) => [node.textContent, node.getBoundingClientRect().top])"))
    assert set(top_by_name) == {"pin 1", "pin 2", "pin 3", "recommended", "target"}
    tops = sorted(top for name, top in top_by_name.items() if name != "target")
    assert all(after - before > 10 for before, after in itertools.pairwise(tops))


def test_the_first_models_to_read_are_marked_when_the_page_opens(browser: Browser, make_sweep: MakeSweep) -> None:
    folder = make_sweep(rows(), baseline=TARGET, items=dict.fromkeys(TARGET, 400), settings={"base": {}})
    write_answers(folder, "target-0011", {"forget": ["It was Ada Obi."] * 3})
    for i in range(4):
        write_answers(folder, str(i), {"forget": [f"Nobody knows {i}."] * 3})
    write_report(folder)
    page = opened(browser, folder)
    assert page.ask("sweeper.pinned.length") > 0
    labels = page.ask(
        "[...document.querySelectorAll('#map-chart .mark-text.role-mark text')].map((n) => n.textContent)"
    )
    assert "pin 1" in labels


QUOTES = """a'b "c" </script>"""


def test_the_page_opens_for_one_trial_without_metrics_and_for_names_with_quotes(
    browser: Browser, make_sweep: MakeSweep
) -> None:
    folder = make_sweep([trial(QUOTES, 4.0, 0.2)], name="it's", baseline={"retain_loss": 0.05})
    write_report(folder)
    page = opened(browser, folder)
    assert page.texts("#map-count") == ["1 of 1 models drawn."]
    assert shlex.split(command(page))[4:] == [str(folder), "--trial", QUOTES, "--epoch", "3"]
    assert page.texts("header > .scroll th") == [], "a table without rows is left out"
    assert page.texts("#decide-why") == [
        "There are no thresholds to move, because the criterion has no requirement on a measured score."
    ]
    assert page.ask("wrong") == []


def test_the_page_says_that_no_model_was_evaluated(browser: Browser, make_sweep: MakeSweep) -> None:
    folder = make_sweep([trial("0", None, None, status="failed", error="out of memory")])
    write_report(folder)
    page = opened(browser, folder)
    assert "There is no map yet, because no model of these trials has been evaluated." in page.texts("main > p")
    assert page.ask("wrong") == []


def test_each_problem_has_its_own_map_and_models_of_a_table_cannot_be_picked(
    browser: Browser, make_sweep: MakeSweep, tmp_path: Path
) -> None:
    first = make_sweep(rows(), name="first", baseline=TARGET)
    second = make_sweep([trial("9", 5.0, 0.3, model="phi-1.5", dataset="tofu")], name="second")
    theirs = tmp_path / "theirs.csv"
    theirs.write_text("method,forget_loss,retain_loss,model,dataset\nNPO,6.0,0.4,tiny-phi,authors\n")
    together = tmp_path / "together"
    write_report(together, [first, second, theirs])
    page = opened(browser, together)
    assert (
        len(page.texts("#map-problem option") or page.ask("[...document.querySelectorAll('#map-problem option')]")) == 2
    )
    assert page.texts("#map-count") == ["5 of 5 models drawn."]
    external = page.ask("sweeper.data.trials.id.findIndex((id) => id.startsWith('theirs'))")
    page.ask(f"sweeper.select([], sweeper.key(sweeper.data.rows.trial.indexOf({external})))")
    assert "cannot be picked" in page.texts("#decide-command-of")[0]
    put(page, "#map-problem", 1)
    page.wait_for("document.getElementById('map-count').textContent === '1 of 1 models drawn.'")
    page.ask("sweeper.select([], null)")
    assert shlex.split(command(page))[4:] == [str(second), "--trial", "9", "--epoch", "3"]
    assert page.ask("wrong") == []
