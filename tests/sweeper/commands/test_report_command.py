"""``report`` of several sources: what it asks for before it starts, and where it writes."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from sweeper.cli import main
from sweeper.columns import column_dictionary

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


def _report(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["report", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def test_two_sweeps_and_a_table_become_one_report(tmp_path: Path) -> None:
    table = tmp_path / "theirs.csv"
    table.write_text("method,forget_loss,retain_loss\nnpo,6,0.5")
    out = tmp_path / "merged"
    code, stdout, _ = _report(
        small_sweep(tmp_path / "a", 5.0), small_sweep(tmp_path / "b", 7.0), table, "--out", out, "--json"
    )
    assert code == 0
    assert [item["trial_id"] for item in json.loads(stdout)["front"]] == ["b/00000", "theirs/line 2"]
    assert (out / "report.html").is_file()
    assert not (tmp_path / "a" / "report.html").exists()


def test_every_problem_with_the_sources_is_told_at_once(tmp_path: Path) -> None:
    sweep = small_sweep(tmp_path / "a", 5.0)
    code, _, stderr = _report(sweep, sweep, tmp_path / "nowhere")
    words = " ".join(stderr.split())
    assert code == 2
    for told in ("needs --out FOLDER", "given twice", "holds no sweep"):
        assert told in words


def test_a_table_alone_is_no_report(tmp_path: Path) -> None:
    table = tmp_path / "theirs.csv"
    table.write_text("method,forget_loss,retain_loss\nnpo,6,0.5\n")
    code, _, stderr = _report(table)
    assert code == 2
    assert "no sweep among the sources" in " ".join(stderr.split())


def test_an_error_in_a_table_is_a_sentence(tmp_path: Path) -> None:
    table = tmp_path / "theirs.csv"
    table.write_text("method,forget_loss,retain_loss\nnpo,much,0.5\n")
    code, _, stderr = _report(small_sweep(tmp_path / "a", 5.0), table, "--out", tmp_path / "merged")
    assert code in (1, 2)
    assert "forget_loss is 'much', expected a number" in " ".join(stderr.split())
    assert "Traceback" not in stderr
    assert not (tmp_path / "merged").exists()


def test_the_report_of_another_sweep_is_left_as_it_is(tmp_path: Path) -> None:
    mine, theirs = small_sweep(tmp_path / "a", 5.0), small_sweep(tmp_path / "b", 7.0)
    (theirs / "pareto.json").write_text("theirs")
    (tmp_path / "file").write_text("x")
    for sources, out, said in (
        ((mine,), theirs, "it holds a sweep"),
        ((mine, theirs), theirs, "it holds a sweep"),
        ((mine,), tmp_path / "file", "this is a file, expected a folder"),
        ((mine,), "", "must be the name of a folder"),
    ):
        code, _, stderr = _report(*sources, "--out", out)
        assert code == 2
        assert said in stderr
    assert sorted(path.name for path in theirs.iterdir()) == ["pareto.json", "sweep.json", "trials.csv"]
    assert (theirs / "pareto.json").read_text() == "theirs"
    assert _report(mine, "--out", mine)[0] == 0


def test_the_figures_of_a_run_are_named_to_machines_and_go_where_they_are_asked_to(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir()
    values = {"trial_id": "ab", "spec_hash": "ab", "model": "tiny-phi", "dataset": "authors", "method": "ga"}
    (run / "metrics.json").write_text(json.dumps(values | {"lr": 1e-4, "seed": 0, "status": "finished"}))
    history = "".join(f"ab,{step},{step},{step},1.0\n" for step in (1, 2, 3))
    (run / "history.csv").write_text(f"trial_id,step,epoch,forget_loss,retain_loss\n{history}")
    code, stdout, stderr = _report(run, "--out", out, "--json")
    assert code == 0, stderr
    figures = json.loads(stdout)["figures"]
    assert figures
    assert all(Path(figure).parent == out / "figures" and Path(figure).is_file() for figure in figures)
    assert not (run / "figures").exists()
