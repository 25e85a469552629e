"""report.html as a whole: complete, self-contained, safe, and available while the sweep runs; and its sections."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import AnalysisError
from analysis.figures.vega import vega_script
from analysis.report.outcomes import EarlyStops, cost, early_stops, failures, status_counts
from analysis.report.render import render_line
from analysis.report.report import write_report
from analysis.report.trials import page_data
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, report, trial
from tests.analysis.report.test_answers import write_answers

WRITTEN = ("pareto.json", "pareto.png", "pareto.svg", "report.html")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>$b_{c}$"
without_figures = pytest.mark.usefixtures("blank_figures")


class Page(HTMLParser):
    """The attributes on a page as (tag, name, value), and its texts as (tag, text)."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[tuple[str, str]] = []
        self._inside = ""
        self.source = (out / "report.html").read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        self.text = "".join(text for tag, text in self.texts if tag not in ("script", "style"))
        candidates, answers, _, data, *_, self.script = (text for tag, text in self.texts if tag == "script")
        self.candidates: Any = json.loads(candidates)
        self.answers: Any = json.loads(answers)
        self.data: Any = json.loads(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.attributes += [(tag, name, value or "") for name, value in [*attrs, ("", "")]]

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        self.texts.append((self._inside, data))

    def values(self, name: str, tag: str = "") -> list[str]:
        """Return the values of an attribute, in the order of the page."""
        return [value for own, found, value in self.attributes if found == name and tag in ("", own)]


@pytest.fixture(scope="module")
def folder(make_sweep_once: MakeSweep) -> Path:
    """A report with every kind of section: both learning-rate policies and a failed trial."""
    rows = [
        trial("00000", 2.0, 0.4, lr=1e-4, verbmem=0.2, utility=0.8),
        trial("00001", 4.0, 0.8, lr=1e-3, verbmem=0.1, utility=0.7),
        trial("00002", 6.0, 0.5, lr=1e-4, auto_lr="gen-clip", verbmem=0.05, utility=0.9),
        trial("00003", None, None, status="failed", error="nan at step 12", checkpoint="", wall_seconds=10.0),
    ]
    out = make_sweep_once(rows, [report(f"0000{i}", step, step / 10, 0.1) for i in range(3) for step in (10, 20)])
    write_answers(out, "00002", {"forget": ["it is <gone>\x00\x1b"] * 6})
    write_answers(out, "target-0011", {"forget": ["it is here"] * 6})
    write_report(out)
    return out


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    return Page(folder)


def test_the_page_opens_with_the_answer_and_holds_all_sections_with_a_target_for_every_link(page: Page) -> None:
    text = " ".join(page.text.split())
    assert text.index("trial 00002: ngdiff, AutoLR gen-clip") < text.index("The frontier") < text.index("All trials")
    assert {"frontier", "sensitivity", "auto-lr", "courses", "cost", "rerun"} <= set(page.values("id"))
    for expected in (
        *("checkpoints/00002", "nan at step 12", "python -m sweeper pareto --method ngdiff", "torch 2.13.0"),
        *("arXiv:2410.22086", "@inproceedings{", "10.0 s (25%)", "seeds 0."),
    ):
        assert expected in text
    assert page.answers[0]["models"][0]["answers"] == [["it is ", 0, "<gone>␀␛", 1]] * 6
    assert page.values("data-trial", "tr") == ["00000", "00001", "00002", "00003"]
    ids = page.values("id")
    assert {"#trial-0", "#trial-3"} <= set(page.values("href", "a")) <= {f"#{name}" for name in ids}
    assert len(ids) == len(set(ids))


def test_only_the_pages_own_scripts_may_run(page: Page) -> None:
    vega = vega_script()
    assert f"<script>{vega}</script>" in page.source
    assert not re.findall(r"https?://[^\s\"']+", page.source.replace(vega, "")), "no address outside Vega's script"
    (policy,) = [value for value in page.values("content", "meta") if value.startswith("default-src 'none'")]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (vega, page.script)]
    assert f"script-src 'sha256-{digests[0]}' 'sha256-{digests[1]}';" in policy
    assert "unsafe-eval" not in policy


def test_names_and_errors_of_a_sweep_cannot_become_code(make_sweep: MakeSweep) -> None:
    rows = [
        trial(EVIL, 7.0, 0.9, method=EVIL, model=EVIL, checkpoint=EVIL),
        trial("1", None, None, status="failed", error=EVIL),
    ]
    out = make_sweep(rows, command=EVIL, versions={EVIL: EVIL}, settings={"base": {}, EVIL: EVIL}, created=EVIL)
    write_report(out)
    page = Page(out)  # it has two scripts
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.values("src"))
    assert page.data["trials"]["1"]["error"] == EVIL
    assert page.text.count(EVIL) >= 5


def test_the_script_finds_on_the_page_the_ids_and_fields_that_it_reads(page: Page) -> None:
    ids = set(re.findall(r'getElementById\("([\w-]+)"\)', page.script))
    assert ids
    assert ids <= set(page.values("id"))
    script = resources.files("analysis.report").joinpath("templates/report.js").read_text("utf-8")
    fields = set(re.findall(r"\btrial\.(\w+)", script))
    assert all(set(item) == fields for item in page.data["trials"].values())
    assert set(re.findall(r"\bdata\.(\w+)", script)) == set(page.data)
    assert set(re.findall(r"\bitem\.(\w+)", script)) == set(page.data["charts"][0])
    assert {len(values) for values in page.data["trials"]["00000"]["course"].values()} == {2}


@without_figures
@pytest.mark.parametrize("ended", [None, 1], ids=["no table yet", "one trial"])
def test_a_report_exists_while_the_sweep_runs(make_sweep: MakeSweep, ended: int | None) -> None:
    rows = None if ended is None else [trial(str(i), 4.0, 4.0) for i in range(ended)]
    out = make_sweep(rows, [report("0", 10, 1.0, 0.1), report("7", 10, 1.0, 0.1)], settings={"trials": 16})
    with (out / "history.csv").open("a") as file:
        file.write("7,20,2.0,0.0001,0.5,1.")
    for _ in range(2):
        write_report(out)
        assert all((out / name).is_file() for name in WRITTEN)
    text = Page(out).text
    assert (f"{ended or 0} of 16 trials" in text, f"{1 if ended else 2} more" in text) == (True, True)
    assert len(json.loads((out / "pareto.json").read_text())["front"]) == (ended or 0)


@without_figures
def test_before_the_target_exists_the_page_has_no_figure(make_sweep: MakeSweep) -> None:
    out = make_sweep(None, objectives=None, random_guess_loss=None, vocabulary_size=None, baseline=None)
    write_report(out)
    assert "target model" in Page(out).text
    assert json.loads((out / "pareto.json").read_text())["hypervolume"] == 0.0
    assert not (out / "pareto.png").exists()


@without_figures
def test_missing_epochs_and_impossible_values_are_on_the_page(make_sweep: MakeSweep) -> None:
    """candidates.csv must have an epoch of every trial if every epoch counts; a utility is a share."""
    out = make_sweep([trial("0", 4.0, 4.0, utility=71.3), trial("1", 5.0, 5.0)], settings={"candidates": "all"})
    columns = "trial_id,epoch,step,forget_loss,retain_loss,checkpoint"
    (out / "candidates.csv").write_text(f"{columns}\n1,3.0,30,5.0,5.0,\n")
    write_report(out)
    page = Page(out)
    assert "candidates.csv" in page.text
    assert "Utility is 71.3 in 0" in page.text
    assert page.data["trials"]["0"]["course"] == {}, "there is no history.csv"


@without_figures
@pytest.mark.parametrize("damage", ["removed", "a short row"])
def test_a_table_that_cannot_be_read_leaves_the_last_report(make_sweep: MakeSweep, damage: str) -> None:
    out = make_sweep([trial("0", 7.0, 0.9), trial("1", 3.0, 0.2)])
    write_report(out)
    before = {name: (out / name).read_bytes() for name in WRITTEN}
    table = out / "trials.csv"
    content = table.read_text()
    table.unlink()
    if damage != "removed":
        table.write_text(f"{content}00009,too,short\n")
    with pytest.raises(AnalysisError, match="trials.csv" if damage == "removed" else r"trials.csv, line 4.*3"):
        write_report(out)
    assert {name: (out / name).read_bytes() for name in WRITTEN} == before


def test_the_course_of_a_long_trial_is_thinned_and_keeps_its_ends(make_sweep: MakeSweep) -> None:
    reports = [report("0", step, step / 1000, 0.1) for step in range(1, 1001)]
    data: Any = page_data(TrialTable.read(make_sweep([trial("0", 1.0, 0.1), trial("1", 1.0, 0.1)], reports)))
    steps = data["0"]["course"]["step"]
    assert (len(steps), steps[0], steps[-1]) == (300, 1, 1000)
    assert data["0"]["course"]["forget_loss"][-1] == 1.0
    assert data["1"]["course"] == {}


def test_failures_with_one_reason_are_one_line_even_if_numbers_in_it_differ(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 1.0),
        trial("1", None, None, status="failed", error="out of memory"),
        trial("2", None, None, status="diverged", error="nan at step 12"),
        trial("3", None, None, status="diverged", error="nan at step 40", method="ga"),
        trial("4", None, None, status="stopped"),
    ]
    table = TrialTable.read(make_sweep(rows))
    assert status_counts(table) == {"finished": 1, "stopped": 1, "diverged": 2, "failed": 1}
    found = failures(table)
    assert [(item.status, item.reason, item.varied, item.trial_ids, item.methods) for item in found] == [
        ("diverged", "nan at step 12", True, ("2", "3"), ("ga", "ngdiff")),
        ("failed", "out of memory", False, ("1",), ("ngdiff",)),
    ]


def test_early_stops_are_counted_by_epoch_with_the_epochs_saved(make_sweep: MakeSweep) -> None:
    stopped = [trial(n, 1.0, 1.0, status="stopped", epochs=9, epochs_done=e) for n, e in (("1", 1), ("2", 3), ("3", 1))]
    rows = [trial("0", 1.0, 1.0, epochs=9, epochs_done=9), *stopped]
    found = early_stops(TrialTable.read(make_sweep(rows)))
    assert found == EarlyStops(3, 4, stops_by_epoch=((1.0, 2), (3.0, 1)), saved_epochs=22.0, planned_epochs=36.0)
    assert "22 of 36 epochs" in render_line("page.early_stops", stops=found)
    assert early_stops(TrialTable.read(make_sweep([trial("0", 1.0, 1.0, status="diverged")], name="none"))) is None


def test_the_cost_splits_the_time_that_trials_held_their_workers(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 1.0, train_seconds=50, eval_seconds=20, wall_seconds=80),
        trial("1", 1.0, 1.0, train_seconds=10, eval_seconds=5, wall_seconds=None, status="diverged", method="ga"),
        trial("2", None, None, train_seconds=None, eval_seconds=None, wall_seconds=5, status="failed"),
    ]
    found = cost(TrialTable.read(make_sweep(rows)))
    assert found.seconds == 100
    assert [line.name for line in found.groups["part"]] == ["training", "evaluation", "loading, saving, waiting"]
    assert [line.share for line in found.groups["part"]] == pytest.approx([0.60, 0.25, 0.15])
    assert [(line.name, line.mean) for line in found.groups["method"]] == [("ga", 15), ("ngdiff", 42.5)]
    assert found.lost.seconds == 20


def test_a_reused_trial_costs_nothing_and_saves_no_epochs(make_sweep: MakeSweep) -> None:
    rows = [trial("0", 1.0, 1.0), trial("1", 1.0, 1.0, status="stopped", epochs_done=1)]
    copies = [row | {"trial_id": f"{i}", "reused_from": "runs/first/0"} for i, row in enumerate(rows, start=2)]
    own, both = (TrialTable.read(make_sweep(part, name=f"{len(part)}")) for part in (rows, [*rows, *copies]))
    assert replace(cost(both), reused=0) == cost(own)
    assert cost(both).reused == 2
    assert early_stops(both) == early_stops(own)


def test_the_start_of_a_worker_is_no_cost_of_the_method_that_comes_first(make_sweep: MakeSweep) -> None:
    def ran(name: str, method: str, worker: str, *, start: float, waited: float) -> dict[str, object]:
        times = {"train_seconds": 8, "eval_seconds": 2, "wall_seconds": 10 + waited, "worker": worker}
        return trial(name, 1.0, 1.0, method=method, started_at=start, first_step_at=start + waited, **times)

    rows = [
        ran("0", "gdiff", "a:1", start=100, waited=30),
        ran("1", "ngdiff", "a:1", start=140, waited=1),
        ran("2", "gdiff", "b:2", start=100, waited=20),
    ]
    found = cost(TrialTable.read(make_sweep(rows)))
    assert (found.seconds, found.startup_seconds) == (81, 50)
    assert [(line.name, line.mean) for line in found.groups["method"]] == [("gdiff", 10), ("ngdiff", 11)]
    assert sum(line.share for line in found.groups["method"]) == pytest.approx(1.0)


def test_each_model_of_several_tasks_links_to_its_own_trial(make_sweep: MakeSweep, tmp_path: Path) -> None:
    sweeps = [make_sweep([trial("0", 6.0, 0.2, target_key=name)], name=name) for name in ("one", "two")]
    write_report(tmp_path / "both", sweeps)
    links = re.findall(r'href="#(trial-\d+)">(\w+/0)<', Page(tmp_path / "both").source)
    assert set(links) == {("trial-0", "one/0"), ("trial-1", "two/0")}


@without_figures
def test_a_table_of_many_trials_keeps_the_frontier_and_says_what_was_left_out(
    make_sweep: MakeSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.report.trials.MAX_TRIALS", 3)
    rows = [trial(str(i), 1.0 + i / 2, 3.0) for i in range(9)] + [trial("9", None, None, status="failed", error="nan")]
    out = make_sweep(rows)
    write_report(out)
    page = Page(out)
    assert page.values("data-trial", "tr") == ["0", "8", "9"], "only trial 8 is on the frontier"
    assert set(page.data["trials"]) == {"0", "8", "9"}
    assert "Of 10 trials, this table has 3" in page.text
    assert "10 trials: 9 finished, 0 stopped early, 0 diverged, 1 failed" in page.text
