"""Every trial is compared with its own target, and scored only with the trials of its own task."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.comparison.comparison import comparison_data, comparison_sources
from analysis.comparison.table import ComparisonTable
from analysis.errors import AnalysisError
from analysis.report.report import write_report
from analysis.study.lr_study import read_study, study_in
from analysis.tables.columns import Column, Columns
from analysis.tables.sources import read_sources
from analysis.tables.tasks import by_task, tasks_of
from analysis.tables.trial_table import TrialTable
from sweeper.store.columns import column_dictionary
from tests.analysis.conftest import BASELINE, OBJECTIVES, MakeRow, MakeSweep, trial

pytestmark = pytest.mark.usefixtures("blank_figures")

LOST = {"verbmem": 0.0, "utility": 0.02}
WHOLE = BASELINE | {"truth_ratio": 0.5}
OF_SEEDS: dict[str, Any] = {
    "baselines": {"0": WHOLE | {"utility": 0.9}, "1": WHOLE | {"utility": 0.3}},
    "baseline": WHOLE | {"utility": 0.6},
    "settings": {"seeds_vary": "target"},
}
WIDE = [item | {"high": 16.0} for item in OBJECTIVES]


def reported(out: Path, *folders: Path) -> dict[str, Any]:
    """Write a report and return the content of pareto.json."""
    write_report(out, folders)
    return dict(json.loads((out / "pareto.json").read_text()))


def compared(*folders: Path) -> tuple[ComparisonTable, ...]:
    return comparison_data(comparison_sources(list(folders), Columns()))


@pytest.mark.parametrize(
    "other",
    [WHOLE | {"utility": WHOLE["utility"] + 1e-9}, WHOLE | {"utility": 0.78}],
    ids=["rounded otherwise", "another model"],
)
def test_a_loss_in_each_sweep_is_a_loss_in_both(make_sweep: MakeSweep, tmp_path: Path, other: dict[str, float]) -> None:
    one = make_sweep([trial("0", 7.5, 6.9, **LOST)], name="one", baseline=WHOLE)
    two = make_sweep([trial("0", 7.4, 6.8, lr=2e-4, **LOST)], name="two", baseline=other)
    found = reported(tmp_path / "both", one, two)["answer"]
    assert (found["outcome"], found["recommended"]) == ("missed", False)


def test_a_trial_of_a_sweep_without_a_baseline_is_not_judged_by_another(make_sweep: MakeSweep, tmp_path: Path) -> None:
    one = make_sweep([trial("0", 7.5, 6.9, **LOST)], name="one", baseline=WHOLE)
    two = make_sweep([trial("0", 6.0, 0.5, lr=2e-4, **LOST)], name="two", baseline=None)
    found = reported(tmp_path / "both", one, two)["answer"]
    assert found["trial_id"] == "two/0"
    assert any("utility" in line and "0.02" not in line for line in found["judged"])


def test_another_target_is_another_task(make_sweep: MakeSweep, tmp_path: Path) -> None:
    one = make_sweep([trial("0", 6.0, 0.2, target_key="a1")], name="one")
    two = make_sweep([trial("0", 5.0, 0.4, target_key="b2")], name="two", baseline=BASELINE | {"utility": 0.3})
    places = reported(tmp_path / "both", one, two)["places"]
    assert [item["apart"] for item in places] == ["target key a1", "target key b2"]
    assert [[member["trial_id"] for member in item["front"]] for item in places] == [["one/0"], ["two/0"]]
    assert [item["baseline"]["utility"] for item in places] == [0.8, 0.3]
    assert "differ in target key" in (tmp_path / "both" / "report.html").read_text()


def test_a_study_needs_the_folder_of_a_sweep(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"trial_id": "0", "method": "gdiff"}')
    with pytest.raises(AnalysisError, match="holds no sweep"):
        read_study([tmp_path])


def test_numbers_that_agree_in_nine_digits_are_one_task(make_sweep: MakeSweep) -> None:
    rates = (0.3, 0.1 + 0.2, 0.4)
    table = TrialTable.read(make_sweep([trial(str(number), 4.0, 1.0) for number in range(3)]))
    columns = Columns({**table.columns.entries, "target_lr": Column(role="data")})
    table = replace(table, trials=table.trials.assign(target_lr=rates), columns=columns)
    assert [item.apart for item in tasks_of(table).of_trials] == ["target lr 0.3", "target lr 0.3", "target lr 0.4"]


def test_a_sweep_that_lacks_a_column_belongs_to_the_only_task(make_sweep: MakeSweep, tmp_path: Path) -> None:
    older = dict(column_dictionary(random_guess=8.0, unit="token"))
    del older["target_key"]
    old = make_sweep([trial("0", 6.0, 0.2, target_key=None)], name="old", columns=older)
    new = [make_sweep([trial("0", 5.0, 0.4, lr=2e-4, target_key=key)], name=key) for key in ("k1", "k2")]
    assert len(by_task(read_sources([old, new[0]], out=tmp_path))[0]) == 1
    parts, _ = by_task(read_sources([old, *new], out=tmp_path))
    assert [task.apart for task in parts] == ["no target key", "target key k1", "target key k2"]


def test_declared_targets_of_seeds_are_one_task_and_each_seed_is_held_against_its_own(make_sweep: MakeSweep) -> None:
    """A utility of 0.5 is 56% of 0.9, and 0.28 is 93% of 0.3."""
    scores = {"verbmem": 0.05, "truth_ratio": 0.5}
    rows = [
        trial("0", 6.0, 0.4, seed=0, utility=0.50, target_key="k0", **scores),
        trial("1", 5.9, 0.5, seed=1, utility=0.28, target_key="k1", **scores),
    ]
    out = make_sweep(rows, **OF_SEEDS)
    assert len(by_task(read_sources([out], out=out))[0]) == len(compared(out)) == 1
    found = reported(out, out)["answer"]
    assert (found["trial_id"], found["recommended"]) == ("1", True)


def test_a_comparison_holds_every_seed_against_its_own_target(make_sweep: MakeSweep) -> None:
    """The mean utility is 70% of the targets' mean, but on seed 0 it is 56% of the target's."""
    scores = {"verbmem": 0.05, "truth_ratio": 0.5}
    rows = [trial(str(seed), 6.0, 0.4, seed=seed, utility=(0.50, 0.34)[seed], **scores) for seed in (0, 1)]
    ((row,),) = (table.rows for table in compared(make_sweep(rows, **OF_SEEDS)))
    assert row.without is not None
    assert (row.without.succeeded, row.without.success, row.without.values["utility"].met) == (1, None, False)


def test_report_and_study_score_every_model_in_its_own_box(make_sweep: MakeSweep, row: MakeRow, tmp_path: Path) -> None:
    folders = []
    for model, objectives in (("tiny-phi", OBJECTIVES), ("tiny-gpt2", WIDE)):
        rows = [row(0.2, lr, seed, model=model) for seed in range(6) for lr in (1e-4, 1e-3)]
        rows += [row(0.5, 1e-4, seed, model=model, auto=True) for seed in range(6)]
        settings = {"sampler": "grid", "kind": "lr-study"}
        folders.append(make_sweep(rows, name=model, objectives=objectives, settings=settings))
    on_page = study_in(read_sources(folders, out=tmp_path / "both"))
    assert on_page is not None
    alone, page = (
        [row.hypervolume for item in study.sensitivity for rows in (item.rates, *item.auto.values()) for row in rows]
        for study in (read_study(folders[:1]), on_page)
    )
    assert alone == pytest.approx([0.2, 0.2, 0.5])
    assert page[:3] == alone
    assert {item.method_task.task.model for item in on_page.sensitivity} == {"tiny-phi", "tiny-gpt2"}
