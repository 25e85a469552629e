"""``report`` for several sources: its checks, and the folders that it writes to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.store.columns import column_dictionary
from tests.sweeper.cli.conftest import invoke, json_of, names, refused

HEADER = "trial_id,spec_hash,model,dataset,method,lr,seed,status,forget_loss_capped,retain_loss,checkpoint,error\n"
BOUNDS = {"low": 0.0, "high": 8.0}
COLUMNS = column_dictionary(random_guess=8.0, unit="token")


def small_sweep(folder: Path, forget: float) -> Path:
    folder.mkdir()
    objectives = [
        {"name": "forget_loss", "column": "forget_loss_capped", "direction": "max", **BOUNDS},
        {"name": "retain_loss", "direction": "min", **BOUNDS},
    ]
    (folder / "sweep.json").write_text(json.dumps({"format": 2, "objectives": objectives, "columns": COLUMNS}))
    (folder / "trials.csv").write_text(f"{HEADER}00000,ab,tiny-phi,authors,ga,1e-4,0,finished,{forget},1.0,,\n")
    return folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.csv"
    path.write_text("method,forget_loss,retain_loss\nnpo,6,0.5")
    return path


def test_problems_with_the_sources_are_listed_at_once(tmp_path: Path, table: Path) -> None:
    sweep = small_sweep(tmp_path / "a", 5.0)
    assert names("\n".join(refused("report", sweep, sweep, tmp_path / "nowhere")), ["--out", "nowhere", "twice"])
    assert names(refused("report", table)[0], ["sweep"])
    table.write_text("method,forget_loss,retain_loss\nnpo,much,0.5\n")
    result = invoke("report", sweep, table, "--out", tmp_path / "merged")
    assert result.exit_code in (1, 2)
    assert names(" ".join(result.stderr.split()), ["forget_loss", "much"])
    assert isinstance(result.exception, SystemExit)
    assert not (tmp_path / "merged").exists()


def test_the_report_of_another_sweep_is_left_as_it_is(tmp_path: Path) -> None:
    mine, theirs = small_sweep(tmp_path / "a", 5.0), small_sweep(tmp_path / "b", 7.0)
    (theirs / "pareto.json").write_text("theirs")
    (tmp_path / "file").write_text("x")
    for sources, out in (((mine,), theirs), ((mine, theirs), theirs), ((mine,), tmp_path / "file"), ((mine,), "")):
        assert names(refused("report", *sources, "--out", out)[0], ["--out"])
    assert sorted(path.name for path in theirs.iterdir()) == ["pareto.json", "sweep.json", "trials.csv"]
    assert (theirs / "pareto.json").read_text() == "theirs"


def test_the_figures_of_a_single_run_are_written_where_asked(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    values = {"trial_id": "ab", "spec_hash": "ab", "model": "tiny-phi", "dataset": "authors", "method": "ga"}
    (run / "metrics.json").write_text(json.dumps(values | {"lr": 1e-4, "seed": 0, "status": "finished"}))
    history = "".join(f"ab,{step},{step},{step},1.0\n" for step in (1, 2, 3))
    (run / "history.csv").write_text(f"trial_id,step,epoch,forget_loss,retain_loss\n{history}")
    figures = [Path(figure) for figure in json_of("report", run, "--out", out)["figures"]]
    assert figures
    assert all(figure.parent == out / "figures" and figure.is_file() for figure in figures)
    assert not (run / "figures").exists()
