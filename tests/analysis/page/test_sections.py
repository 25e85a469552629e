"""What a report says: the answer, the trials, the failures and the cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from analysis.frontier.frontier import frontier
from analysis.page.answer import Answer, answer
from analysis.page.outcomes import cost, failures, stopped_early
from analysis.page.trials import page_data, trials_section
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from tests.analysis.conftest import MakeSweep, report, tables_of, trial


def _answer(out: Path) -> Answer:
    table, sweep = tables_of(out)
    return answer(table, sweep, frontier(table.models, sweep.objectives))


def test_the_answer_names_the_trial_its_settings_and_its_checkpoint(make_sweep: MakeSweep) -> None:
    rows = [trial("00004", 7.0, 1.0, method="gdiff", c=0.75, lr=5e-5), trial("00005", 1.0, 0.5)]
    found = _answer(make_sweep(rows))
    assert found.headline == "Take trial 00004: gdiff, c 0.75, lr 5e-5."
    assert (found.trial_id, found.checkpoint) == ("00004", "checkpoints/00004")
    assert found.sentences[0] == (
        "Against the model before unlearning: forget loss from 0.04 to 7 (higher is better); "
        "retain loss from 0.05 to 1 (lower is better)."
    )
    assert [member.trial_id for member in found.members] == ["00004", "00005"]
    assert "nearest to ideal" in found.members[0].roles


def test_the_answer_is_held_against_the_papers_thresholds(make_sweep: MakeSweep) -> None:
    """Baseline: utility 0.8, so 0.56 is its 70%; no truth ratio, so that threshold cannot be judged."""
    found = _answer(make_sweep([trial("0", 7.0, 1.0, verbmem=0.05, utility=0.5, truth_ratio=0.4)]))
    verdicts = {line.criterion: line.met for line in found.metrics if line.met is not None}
    assert verdicts == {"below 0.1": True, "at least 70% of No-unlearn": False}
    assert found.members[0].meets_criteria is False
    passing = _answer(make_sweep([trial("0", 7.0, 1.0, verbmem=0.05, utility=0.57, truth_ratio=0.4)], name="passing"))
    assert passing.members[0].meets_criteria is None
    baseline = {"verbmem": 0.9, "utility": 0.8, "truth_ratio": 0.5}
    rows = [trial("0", 7.0, 1.0, verbmem=0.05, utility=0.57, truth_ratio=0.35)]
    judged = _answer(make_sweep(rows, baseline=baseline, name="judged"))
    assert judged.members[0].meets_criteria is True


@pytest.mark.parametrize(("verbmem", "met"), [(0.099, True), (0.1, False), (0.5, False), (None, None)])
def test_verbatim_memorisation_must_fall_below_a_tenth(
    make_sweep: MakeSweep, verbmem: float | None, met: bool | None
) -> None:
    found = _answer(make_sweep([trial("0", 7.0, 1.0, verbmem=verbmem)]))
    (line,) = [line for line in found.metrics if line.criterion == "below 0.1"]
    assert line.met is met


def test_where_the_knee_misses_a_threshold_a_trial_that_meets_them_all_is_taken(make_sweep: MakeSweep) -> None:
    baseline = {"verbmem": 0.9, "utility": 0.8, "truth_ratio": 0.5}
    good = {"verbmem": 0.05, "utility": 0.8, "truth_ratio": 0.5}
    knee = trial("0", 8.0, 1.0, **good | {"utility": 0.1})
    rows = [knee, trial("1", 4.0, 0.5, **good), trial("2", 5.0, 0.7, **good), trial("3", 1.0, 0.1)]
    found = _answer(make_sweep(rows, baseline=baseline))
    assert (found.trial_id, found.recommended) == ("2", True)
    assert any("trial 0 is nearest to the ideal corner" in sentence for sentence in found.sentences)
    alone = _answer(make_sweep([knee], baseline=baseline, name="alone"))
    assert alone.headline.startswith("Everything was lost: utility is 0.1 in the only trial, wanted at least 70%")
    assert (alone.trial_id, alone.recommended) == ("0", False)


def test_an_answer_that_gained_nothing_says_so(make_sweep: MakeSweep) -> None:
    worse = _answer(make_sweep([trial("0", 0.03, 0.9)]))
    assert any("Nothing was gained" in sentence for sentence in worse.sentences)
    better = _answer(make_sweep([trial("0", 4.0, 0.9)], name="better"))
    assert not any("Nothing was gained" in sentence for sentence in better.sentences)


@pytest.mark.parametrize(
    ("rows", "entries", "headline"),
    [
        (None, {"objectives": None}, "Nothing to take yet: the sweep is still making its target model."),
        ([], {}, "Nothing to take yet: no trial has ended."),
        (
            [("0", "diverged"), ("1", "failed"), ("2", "diverged")],
            {},
            "Nothing to take: no trial finished with a value of every objective (2 diverged, 1 failed).",
        ),
    ],
)
def test_where_there_is_nothing_to_take_the_headline_says_why(
    make_sweep: MakeSweep, rows: Any, entries: dict[str, object], headline: str
) -> None:
    trials = None if rows is None else [trial(name, None, None, status=status) for name, status in rows]
    found = _answer(make_sweep(trials, **entries))
    assert (found.headline, found.trial_id, found.members) == (headline, "", ())


def test_the_table_has_columns_for_what_differs_and_says_once_what_does_not(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 6.0, 4.0), trial("1", 7.0, 5.0, lr=1e-5)])
    table = TrialTable.read(out)
    section = trials_section(table, SweepFile.read(out).objectives, ())
    names = [column.name for column in section.headings]
    assert {"trial_id", "status", "on_front", "method", "lr", "forget_loss", "retain_loss"} <= set(names)
    assert not {"seed", "c", "verbmem"} & set(names)
    assert {("seed", "0"), ("model", "tiny-phi"), ("epochs", "3")} <= set(section.same)
    cells = dict(zip(names, section.lines[1].cells, strict=True))
    assert (cells["lr"].text, float(cells["lr"].key)) == ("1e-5", 1e-5)


def test_a_missing_metric_sorts_last_and_shows_no_number(make_sweep: MakeSweep) -> None:
    out = make_sweep([trial("0", 6.0, 4.0), trial("1", None, None, status="failed")])
    table = TrialTable.read(out)
    section = trials_section(table, SweepFile.read(out).objectives, ())
    place = [column.name for column in section.headings].index("retain_loss")
    assert (section.lines[1].cells[place].text, section.lines[1].cells[place].key) == ("–", "")


def test_the_course_of_a_long_trial_is_thinned_and_keeps_its_ends(make_sweep: MakeSweep) -> None:
    reports = [report("0", step, step / 1000, 0.1) for step in range(1, 1001)]
    data: Any = page_data(TrialTable.read(make_sweep([trial("0", 1.0, 0.1), trial("1", 1.0, 0.1)], reports)))
    steps = data["0"]["course"]["step"]
    assert (len(steps), steps[0], steps[-1]) == (300, 1, 1000)
    assert data["0"]["course"]["forget_loss"][-1] == 1.0
    assert data["1"]["course"] == {}


def test_failures_with_one_reason_are_one_line_also_when_numbers_in_it_differ(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 1.0),
        trial("1", None, None, status="failed", error="out of memory"),
        trial("2", None, None, status="diverged", error="nan at step 12"),
        trial("3", None, None, status="diverged", error="nan at step 40", method="ga"),
        trial("4", None, None, status="stopped"),
    ]
    found = failures(TrialTable.read(make_sweep(rows)))
    assert [(item.status, item.reason, item.varied, item.trial_ids, item.methods) for item in found] == [
        ("diverged", "nan at step 12", True, ("2", "3"), ("ga", "ngdiff")),
        ("failed", "out of memory", False, ("1",), ("ngdiff",)),
    ]


def test_the_page_says_after_which_epochs_trials_were_stopped_and_what_that_saved(make_sweep: MakeSweep) -> None:
    stopped = [trial(n, 1.0, 1.0, status="stopped", epochs=9, epochs_done=e) for n, e in (("1", 1), ("2", 3), ("3", 1))]
    rows = [trial("0", 1.0, 1.0, epochs=9, epochs_done=9), *stopped]
    assert stopped_early(TrialTable.read(make_sweep(rows))) == (
        "3 of 4 trials were stopped early (2 after epoch 1, 1 after epoch 3): 22 of 36 epochs were saved."
    )


def test_of_a_sweep_that_stopped_nobody_the_page_does_not_say_so(make_sweep: MakeSweep) -> None:
    assert stopped_early(TrialTable.read(make_sweep([trial("0", 1.0, 1.0, status="diverged")]))) == ""


def test_the_cost_splits_what_trials_held_their_workers_for(make_sweep: MakeSweep) -> None:
    rows = [
        trial("0", 1.0, 1.0, train_seconds=50, eval_seconds=20, wall_seconds=80),
        trial("1", 1.0, 1.0, train_seconds=10, eval_seconds=5, wall_seconds=None, status="diverged", method="ga"),
        trial("2", None, None, train_seconds=None, eval_seconds=None, wall_seconds=5, status="failed"),
    ]
    found = cost(TrialTable.read(make_sweep(rows)))
    assert found.total == "1 min 40 s"
    assert [line.name for line in found.parts] == ["training", "evaluation", "loading, saving, waiting"]
    assert [line.share for line in found.parts] == pytest.approx([0.60, 0.25, 0.15])
    assert [(line.name, line.trials, line.total) for line in found.by_status] == [
        ("finished", 1, "1 min 20 s"),
        ("diverged", 1, "15.0 s"),
        ("failed", 1, "5.0 s"),
    ]
    assert [(line.name, line.mean) for line in found.by_method] == [("ga", "15.0 s"), ("ngdiff", "42.5 s")]


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
    assert found.total == "1 min 21 s"
    assert found.starts == "50.0 s"
    assert [(line.name, line.mean) for line in found.by_method] == [("gdiff", "10.0 s"), ("ngdiff", "11.0 s")]
    assert sum(line.share for line in found.by_method) == pytest.approx(1.0)


def test_a_sweep_without_trials_cost_nothing(make_sweep: MakeSweep) -> None:
    found = cost(TrialTable.read(make_sweep(None)))
    assert found.total == "0.0 s"
    assert [line.share for line in found.parts] == [0.0, 0.0, 0.0]
