"""The keywords of the Python API are the options of the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper import Sweep, evaluate, pick, unlearn
from sweeper.settings.sources import Problems
from sweeper.store.folder import read_settings


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def test_a_sweep_is_begun_as_by_the_command_line() -> None:
    options = {"option": {"beta": [0.1, 0.5]}, "constraint": "utility>=0.7", "metrics": ("verbmem", "utility")}
    settings = read_settings(
        Sweep.begin(method="npo+ngdiff", trials=5, auto_lr=["off", "gen"], out="a b", **options).out
    )
    assert (settings.trials, settings.constraints) == (5, ("utility>=0.7",))
    assert settings.base.metrics == ("verbmem", "utility")
    assert (settings.params["auto_lr"], settings.params["beta"]) == ("off, gen", "0.1, 0.5")
    assert settings.command.startswith(
        "python -m sweeper pareto --method npo+ngdiff --auto-lr off --auto-lr gen --trials 5"
    )
    assert settings.command.endswith("--option beta=0.1 --option beta=0.5 --out 'a b'")
    assert Sweep.begin(method="ngdiff").out.parent == Path("runs")


def test_all_problems_are_raised_at_once() -> None:
    with pytest.raises(Problems) as raised:
        Sweep.begin(method="ngdif", epochs=0, lr="fast", trials=-1)
    assert len(raised.value.problems) == 4
    assert not Path("runs").exists()
    with pytest.raises(Problems, match="model-path"):
        evaluate()
    with pytest.raises(Problems, match="--lr"):
        unlearn(lr=[1e-3, 1e-4])
    with pytest.raises(Problems, match="nowhere"):
        pick("nowhere")


def test_a_folder_without_a_sweep_is_refused() -> None:
    sweep = Sweep("nowhere")
    for use in (sweep.run, lambda: sweep.trials, lambda: sweep.answer):
        with pytest.raises(Problems, match="nowhere holds no sweep"):
            use()
    with pytest.raises(Problems, match="report"):
        _ = Sweep.begin(method="ngdiff", out="begun").answer


def test_a_name_that_is_no_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"trails.* 'trials'"):
        Sweep.begin(trails=3)
    with pytest.raises(TypeError, match="as_json"):
        pick("out", as_json=1)


def test_the_frontier_and_the_answer_of_a_finished_sweep(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    (tmp_path / "pareto.json").write_text(
        json.dumps({"front": [{"trial_id": "00000", "objectives": {"a": 1.0}}], "answer": {"headline": "Take it."}})
    )
    assert sweep.front.to_dict("records") == [{"trial_id": "00000", "objectives.a": 1.0}]
    assert sweep.answer == {"headline": "Take it."}
