"""The keywords of the Python API are the options of the commands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import sweeper
from sweeper import Sweep, evaluate, pick, unlearn
from sweeper.settings.problems import Problems
from sweeper.settings.sources import Options, command_line, from_python
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import read_settings


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


def begun(**options: object) -> SweepSettings:
    return read_settings(Sweep.begin(out="out", **options).out)


def test_keywords_are_what_one_would_type() -> None:
    given = {"method": ["gdiff", "npo+ngdiff"], "lr": 1e-5, "option": {"beta": [0.1, 0.5]}, "metrics": ("a", "b")}
    flags = {"auto_lr_log_forget": False, "gradient_checkpointing": True, "seeds": None}
    raw = from_python("pareto", {**given, **flags, "out": Path("a b")})
    options = Options("pareto", raw)
    assert (options["method"], options["lr"], options["option"]) == (
        *(("gdiff", "npo+ngdiff"), (1e-05,), ("beta=0.1", "beta=0.5")),
    )
    assert (options["metrics"], options["auto_lr_log_forget"], options["seeds"]) == (("a", "b"), False, 1)
    assert shlex.split(command_line("pareto", raw))[3:] == [
        *("pareto", "--method", "gdiff", "--method", "npo+ngdiff", "--lr", "1e-05", "--gradient-checkpointing"),
        *("--no-auto-lr-log-forget", "--metrics", "a,b", "--option", "beta=0.1", "--option", "beta=0.5"),
        *("--out", "a b"),
    ]


def test_a_sweep_is_begun_as_by_the_command_line() -> None:
    settings = begun(method="ngdiff", trials=5, epochs=2, auto_lr="both", constraint="utility>=0.7")
    assert (settings.trials, settings.base.epochs, settings.constraints) == (5, 2, ("utility>=0.7",))
    assert settings.params["auto_lr"] == "off, on"
    assert settings.command.startswith("python -m sweeper pareto --method ngdiff --auto-lr both --trials 5")
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


def test_a_name_that_is_no_option_is_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"trails.* 'trials'"):
        Sweep.begin(trails=3)
    with pytest.raises(TypeError, match="as_json"):
        pick("out", as_json=1)


def test_the_package_exports_the_interface_only() -> None:
    assert sweeper.Sweep is Sweep
    with pytest.raises(AttributeError, match="nothing"):
        _ = sweeper.nothing


def test_the_frontier_and_the_answer_of_a_finished_sweep(tmp_path: Path) -> None:
    sweep = Sweep(tmp_path)
    (tmp_path / "pareto.json").write_text(
        json.dumps({"front": [{"trial_id": "00000", "objectives": {"a": 1.0}}], "answer": {"headline": "Take it."}})
    )
    assert sweep.front.to_dict("records") == [{"trial_id": "00000", "objectives.a": 1.0}]
    assert sweep.answer == {"headline": "Take it."}
