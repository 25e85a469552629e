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
from analysis.report import write_report

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


@pytest.fixture
def folder(make_sweep: MakeSweep, trial: MakeRow, report: MakeRow) -> Path:
    rows = [
        trial("00000", 7.0, 0.9, verbmem=0.05, utility=0.7),
        trial("00001", 3.0, 0.2, method="gdiff", c=0.5),
        trial("00002", 2.0, 0.5),
        trial("00003", None, None, status="diverged", error="the retain loss became nan at step 12", checkpoint=""),
    ]
    reports = [report(f"0000{i}", step, step / 10, 0.1) for i in range(3) for step in (10, 20, 30)]
    out = make_sweep(rows, reports)
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


def test_a_table_that_cannot_be_read_leaves_the_last_report(folder: Path) -> None:
    before = {name: (folder / name).read_bytes() for name in WRITTEN}
    with (folder / "trials.csv").open("a") as file:
        file.write("00009,too,short\n")
    with pytest.raises(AnalysisError, match=r"trials.csv, line 6: 3 cells"):
        write_report(folder)
    assert {name: (folder / name).read_bytes() for name in WRITTEN} == before
