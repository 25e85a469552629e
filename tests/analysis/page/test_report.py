"""report.html as a whole: complete, self-contained, safe, and there while the sweep runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from analysis.errors import AnalysisError
from analysis.page.report import write_report

MakeSweep = Callable[..., Path]
MakeRow = Callable[..., dict[str, object]]
WRITTEN = ("pareto.json", "pareto.png", "pareto.svg", "report.html")
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


class Page(HTMLParser):
    """Everything of a page that could run or load something, and its text."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self._inside = ""
        self.source = (out / "report.html").read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif self._inside != "style":
            self.text += data

    @property
    def data(self) -> Any:
        """What the page's script draws from."""
        (content,) = [text for attributes, text in self.scripts if attributes.get("id") == "page-data"]
        return json.loads(content)


@pytest.fixture(scope="module")
def folder(make_sweep_once: MakeSweep, trial: MakeRow, report: MakeRow) -> Path:
    rows = [
        trial("00000", 7.0, 0.9, verbmem=0.05, utility=0.7),
        trial("00001", 3.0, 0.2, method="gdiff", c=0.5),
        trial("00002", 2.0, 0.5),
        trial("00003", None, None, status="diverged", error="the retain loss became nan at step 12", checkpoint=""),
    ]
    reports = [report(f"0000{i}", step, step / 10, 0.1) for i in range(3) for step in (10, 20, 30)]
    out = make_sweep_once(rows, reports)
    write_report(out)
    return out


def test_four_files_and_the_figures_are_written_and_nothing_else(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == {"sweep.json", "trials.csv", "history.csv", "figures", *WRITTEN}


def test_the_page_opens_with_the_answer_and_tells_the_rest(folder: Path) -> None:
    page = Page(folder)
    text = " ".join(page.text.split())
    assert text.index("Take trial 00000: ngdiff") < text.index("The frontier") < text.index("All trials")
    for expected in (
        "checkpoints/00000",
        "the retain loss became nan at step 12",
        "python -m sweeper pareto --method ngdiff",
        "torch 2.13.0",
        "arXiv:2410.22086",
        "@inproceedings{",
        "of trial time",
    ):
        assert expected in text
    assert page.data["trials"]["00001"]["course"]["step"] == [10, 20, 30]
    assert page.data["trials"]["00003"]["error"] == "the retain loss became nan at step 12"


def test_every_trial_has_a_row_and_every_link_a_target(folder: Path) -> None:
    page = Page(folder)
    rows = [value for tag, name, value in page.attributes if tag == "tr" and name == "data-trial"]
    assert rows == ["00000", "00001", "00002", "00003"]
    links = {value for tag, name, value in page.attributes if tag == "a" and name == "href"}
    assert links == {"#trial-0", "#trial-1", "#trial-2", "#trial-3"}
    assert {link.removeprefix("#") for link in links} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))


def test_nothing_is_loaded_from_anywhere(folder: Path) -> None:
    page = Page(folder)
    loading = [value for _, name, value in page.attributes if name in ("src", "href", "srcset", "action", "data")]
    assert loading
    assert all(value.startswith("#") for value in loading)
    assert not {"link", "iframe", "object", "embed", "base", "img"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", page.source)
    # The script names the SVG namespace, which is an identifier; there is no other address on the page.
    assert re.findall(r"https?://[^\s\"']+", page.source) == ["http://www.w3.org/2000/svg"]


def test_the_only_script_that_may_run_is_the_pages_own(folder: Path) -> None:
    page = Page(folder)
    (policy,) = [value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src")]
    running = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    assert len(running) == 1
    digest = base64.b64encode(hashlib.sha256(running[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_names_and_errors_of_a_sweep_cannot_become_code(make_sweep: MakeSweep, trial: MakeRow) -> None:
    rows = [
        trial(EVIL, 7.0, 0.9, method=EVIL, model=EVIL, checkpoint=EVIL),
        trial("1", None, None, status="failed", error=EVIL),
    ]
    out = make_sweep(rows, command=EVIL, versions={EVIL: EVIL}, settings={"base": {}, EVIL: EVIL}, created=EVIL)
    write_report(out)
    page = Page(out)
    assert len(page.scripts) == 2
    assert "img" not in page.tags
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert page.data["trials"]["1"]["error"] == EVIL
    assert page.text.count(EVIL) >= 5


@pytest.mark.parametrize("ended", [None, 0, 1], ids=["no table yet", "only its header", "one trial"])
def test_a_report_is_there_while_the_sweep_runs(
    make_sweep: MakeSweep, trial: MakeRow, report: MakeRow, ended: int | None
) -> None:
    rows = None if ended is None else [trial(str(i), 4.0, 4.0) for i in range(ended)]
    out = make_sweep(rows, [report("0", 10, 1.0, 0.1), report("7", 10, 1.0, 0.1)], settings={"trials": 16})
    with (out / "history.csv").open("a") as file:
        file.write("7,20,2.0,0.0001,0.5,1.")
    write_report(out)
    assert all((out / name).is_file() for name in WRITTEN)
    begun = 1 if ended else 2
    assert f"Not complete: {ended or 0} of 16 trials have ended, {begun} more have begun." in Page(out).text
    pareto = json.loads((out / "pareto.json").read_text())
    assert len(pareto["front"]) == (ended or 0)


def test_a_page_made_before_the_first_trial_can_be_made_again(make_sweep: MakeSweep) -> None:
    out = make_sweep(None)
    for _ in range(2):
        write_report(out)
    assert json.loads((out / "pareto.json").read_text())["front"] == []


@pytest.mark.parametrize("kept", ["all", "last"])
def test_epochs_that_candidates_csv_has_lost_are_told_where_every_epoch_counts(
    make_sweep: MakeSweep, trial: MakeRow, kept: str
) -> None:
    out = make_sweep([trial("0", 4.0, 4.0), trial("1", 5.0, 5.0)], settings={"candidates": kept})
    (out / "candidates.csv").write_text("trial_id,epoch,step,forget_loss,retain_loss,checkpoint\n1,3.0,30,5.0,5.0,\n")
    write_report(out)
    told = "Epochs of trial 0 are missing from candidates.csv: " in Page(out).text
    assert told is (kept == "all")


def test_percent_in_the_place_of_a_share_is_told(make_sweep: MakeSweep, trial: MakeRow) -> None:
    out = make_sweep([trial("0", 4.0, 4.0, utility=71.3)])
    write_report(out)
    assert "Utility is 71.3 in 0, expected from 0 to 1: write shares, not percent." in Page(out).text


def test_a_page_of_trials_is_not_replaced_by_one_of_none(make_sweep: MakeSweep, trial: MakeRow) -> None:
    out = make_sweep([trial("0", 4.0, 4.0)])
    write_report(out)
    before = (out / "report.html").read_bytes()
    (out / "trials.csv").unlink()
    with pytest.raises(AnalysisError, match=r"trials.csv is missing, and pareto.json is of its trials"):
        write_report(out)
    assert (out / "report.html").read_bytes() == before


def test_before_the_target_is_made_there_is_a_page_without_a_figure(make_sweep: MakeSweep) -> None:
    out = make_sweep(None, objectives=None, random_guess_loss=None, vocabulary_size=None, baseline=None)
    write_report(out)
    assert "still making its target model" in Page(out).text
    assert json.loads((out / "pareto.json").read_text())["hypervolume"] == 0.0
    assert not (out / "pareto.png").exists()


def test_a_sweep_without_a_history_has_a_report(make_sweep: MakeSweep, trial: MakeRow) -> None:
    out = make_sweep([trial("0", 4.0, 4.0)])
    write_report(out)
    assert Page(out).data["trials"]["0"]["course"] == {}


def test_a_table_that_cannot_be_read_leaves_the_last_report(make_sweep: MakeSweep, trial: MakeRow) -> None:
    folder = make_sweep([trial("0", 7.0, 0.9), trial("1", 3.0, 0.2)])
    write_report(folder)
    before = {name: (folder / name).read_bytes() for name in WRITTEN}
    with (folder / "trials.csv").open("a") as file:
        file.write("00009,too,short\n")
    with pytest.raises(AnalysisError, match=r"trials.csv, line 4: 3 cells"):
        write_report(folder)
    assert {name: (folder / name).read_bytes() for name in WRITTEN} == before


@pytest.fixture(scope="module")
def full(make_sweep_once: MakeSweep, trial: MakeRow, report: MakeRow) -> Path:
    """A sweep with both learning-rate policies, so that every kind of section is there."""
    rows = [
        trial("0", 2.0, 0.4, lr=1e-4, verbmem=0.2, utility=0.8),
        trial("1", 4.0, 0.8, lr=1e-3, verbmem=0.1, utility=0.7),
        trial("2", 6.0, 0.5, lr=1e-4, auto_lr="on", verbmem=0.1, utility=0.9),
        trial("3", None, None, status="failed", error="out of memory", wall_seconds=10.0),
    ]
    out = make_sweep_once(
        rows, [report(str(i), step, step / 10, 0.1) for i in range(3) for step in (10, 20)], name="full"
    )
    write_report(out)
    return out


def test_the_page_shows_sensitivity_auto_lr_and_what_failures_cost(full: Path) -> None:
    page = Page(full)
    text = " ".join(page.text.split())
    for expected in (
        "How much does the learning rate matter?",
        "AutoLR against a fixed learning rate",
        "This is a description, not a test: it rests on 1 seed",
        "2 \u2192 6",
        "Over ROUGE",
        "Trials that did not finish took 10.0 s of it (25%).",
        "seeds 0.",
    ):
        assert expected in text
    assert {"sensitivity", "auto-lr", "courses", "failures", "cost", "rerun"} <= set(page.ids)
    files = {path.name for path in (full / "figures").iterdir()}
    assert {"pareto_rouge.png", "pareto_rouge.svg", "auto_lr_ablation.png", "metrics_over_steps.svg"} <= files
    assert all((full / "figures" / name).stat().st_size > 1000 for name in files)


def test_the_page_counts_every_way_a_trial_ended(make_sweep: MakeSweep, trial: MakeRow) -> None:
    ended = {"finished": 2, "stopped": 3, "diverged": 1, "failed": 0}
    each = [status for status, count in ended.items() for _ in range(count)]
    out = make_sweep([trial(str(n), 2.0 + n, 0.4, status=status) for n, status in enumerate(each)])
    write_report(out)
    counts = re.search(r"(\d+) finished, (\d+) stopped\D*, (\d+) diverged, (\d+) failed", Page(out).text)
    assert counts
    assert [int(count) for count in counts.groups()] == list(ended.values())
    assert "Every trial finished" not in Page(out).text


def test_the_script_finds_on_the_page_all_that_it_asks_for(full: Path) -> None:
    """The contract of script and page: ids it looks up, and the fields of a trial that it reads."""
    page = Page(full)
    (script,) = [text for attributes, text in page.scripts if attributes.get("type") != "application/json"]
    asked = set(re.findall(r'getElementById\("([\w-]+)"\)', script))
    assert asked
    assert asked <= set(page.ids)
    read = set(re.findall(r"\btrial\.(\w+)", script))
    assert read == {"settings", "spec_hash", "checkpoint", "error", "course"}
    assert all(set(fields) == read for fields in page.data["trials"].values())
    assert set(re.findall(r"\bdata\.(\w+)", script)) == set(page.data) == {"trials", "baseline", "guess", "charts"}
    named = [value for tag, name, value in page.attributes if tag == "tr" and name == "data-trial"]
    assert set(named) == set(page.data["trials"])
    columns = {key for fields in page.data["trials"].values() for key in fields["course"]}
    charts = page.data["charts"]
    assert columns == {"step", "epoch"} | {name for chart in charts for name, _ in chart["lines"]} & columns
    assert set(re.findall(r"\bitem\.(\w+)", script)) == set(charts[0])
    headings = set(re.findall(r"<button type=\"button\">([^<]+)</button>", page.source))
    assert {"forget loss", "retain loss", "verbmem", "utility"} <= headings
    lengths = {len(values) for values in page.data["trials"]["0"]["course"].values()}
    assert lengths == {2}


def test_a_merged_page_names_every_sweep_and_its_command(
    make_sweep: MakeSweep, trial: MakeRow, report: MakeRow, tmp_path: Path
) -> None:
    one = make_sweep([trial("0", 7.0, 0.9)], [report("0", 10, 1.0, 0.1)], name="one", command="first command")
    two = make_sweep([trial("0", 3.0, 0.2)], [report("0", 10, 2.0, 0.2)], name="two", command="second command")
    write_report(tmp_path / "merged", [one, two])
    page = Page(tmp_path / "merged")
    assert set(page.data["trials"]) == {"one/0", "two/0"}
    assert page.data["trials"]["two/0"]["course"]["forget_loss"] == [2.0]
    assert "first command" in page.text
    assert "second command" in page.text
    assert "../one/checkpoints/0" in page.text
    assert len(page.ids) == len(set(page.ids))


def test_a_page_of_200_trials_stays_below_three_megabytes(
    make_sweep: MakeSweep, trial: MakeRow, report: MakeRow
) -> None:
    rows = [
        trial(f"{i:05}", 1 + i / 40, 0.1 + i / 50, lr=1e-5 * 1.02**i, auto_lr="on" if i % 2 else "off", c=i / 200)
        for i in range(200)
    ]
    reports = [report(row["trial_id"], step, 1 + step / 7, 0.3 / step) for row in rows for step in range(1, 61)]
    out = make_sweep(rows, reports)
    write_report(out)
    assert (out / "report.html").stat().st_size < 3e6
