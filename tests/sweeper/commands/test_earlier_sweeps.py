"""Sweeps that begin from earlier ones, and earlier ones that go on with other settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.columns import TRIAL_COLUMNS
from sweeper.folder import read_settings
from sweeper.ledger import Ledger
from sweeper.placement import PlacementError
from tests.sweeper.commands.conftest import invoke, problems_of
from trainables.spec import TrialSpec


@pytest.fixture
def earlier(accepted: Callable[..., list[TrialSpec]], out: Path) -> Path:
    """A sweep that has begun."""
    accepted("--trials", "4")
    return out


def test_a_warm_start_of_other_objectives_is_refused_with_everything_else(
    earlier: Path, data: Path, tmp_path: Path
) -> None:
    tofu = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", tmp_path / "new")
    asked = ("--objectives", "verbmem:min,utility:max", "--until", "x", "--constraint", "speed>=1")
    problems = problems_of(invoke("pareto", *tofu, "--warm-start", earlier, *asked))
    assert len(problems) == 3
    assert any("that sweep searched forget_loss:max,retain_loss:min" in problem for problem in problems)


def test_a_table_from_elsewhere_that_names_places_outside_its_folder_is_refused(
    earlier: Path, data: Path, tmp_path: Path
) -> None:
    row = dict.fromkeys(TRIAL_COLUMNS, "") | {"trial_id": "00000", "checkpoint": "../../secret"}
    (earlier / "trials.csv").write_text(f"{','.join(row)}\n{','.join(row.values())}\n")
    tofu = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", tmp_path / "new")
    [problem] = problems_of(invoke("pareto", *tofu, "--reuse", earlier))
    assert "line 2: checkpoint is '../../secret', which leads out of the table's folder" in problem


def test_what_the_search_is_told_is_in_the_settings(
    earlier: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    (tmp_path / "points.yaml").write_text("- {lr: 1e-4}\n- {c: 0.5, method: gdiff}\n")
    result = invoke(
        *("pareto", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", tmp_path / "new"),
        *("--tracking-uri", "sqlite:///m.db", "--warm-start", os.path.relpath(earlier), "--reuse", earlier),
        *("--enqueue", "lr=1e-3,c=0.5", "--enqueue", tmp_path / "points.yaml", "--constraint", "utility>=70%"),
        *("--until", "plateau:5", "--epoch-budget", "40", "--sampler", "gp"),
        # Another order of the objectives is no other problem.
        *("--objectives", "retain_loss:min,forget_loss:max"),
    )
    assert result.exit_code == 0, result.output
    settings = read_settings(tmp_path / "new")
    assert settings.enqueue == ({"lr": 1e-3, "c": 0.5}, {"lr": 1e-4}, {"c": 0.5, "method": "gdiff"})
    assert settings.warm_start == settings.reuse == (str(earlier),)
    assert settings.constraints == ("utility>=70%",)
    assert (settings.until, settings.epoch_budget, settings.sampler) == ("plateau:5", 40, "gp")
    assert settings.trials == 14  # of 15 epochs at most, and 2.94 on average


def test_a_sweep_may_be_resumed_with_more_trials_and_another_end(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(
        "sweeper.commands.resume.run_to_the_end", lambda out, as_json, change, **more: told.append(change)
    )
    assert invoke("resume", earlier).exit_code == 0
    assert invoke("resume", earlier, "--trials", "64", "--until", "none", "--epoch-budget", "90").exit_code == 0
    assert told == [{}, {"trials": 64, "until": "none", "epoch_budget": 90}]


def test_a_sweep_may_be_resumed_on_another_cluster_or_on_none(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []
    monkeypatch.setattr(
        "sweeper.commands.resume.run_to_the_end", lambda out, as_json, change, **more: told.append(change)
    )
    assert invoke("resume", earlier, "--address", "none").exit_code == 0
    assert invoke("resume", earlier, "--address", "auto").exit_code == 0
    assert told == [{"address": None}, {"address": "auto"}]
    (problem,) = problems_of(invoke("resume", earlier, "--address", "127.0.0.1:9"))
    assert problem.startswith("--address 127.0.0.1:9: no Ray cluster answers there")


def test_a_sweep_whose_cluster_is_gone_is_told_where_to_go(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*given: object, **more: object) -> None:
        raise PlacementError("--address 10.0.0.1:6379: no Ray cluster answers there")

    monkeypatch.setattr("sweeper.commands.resume.run_to_the_end", gone)
    (problem,) = problems_of(invoke("resume", earlier))
    assert problem.startswith("--address 10.0.0.1:6379: no Ray cluster answers there; resume goes on")
    assert "--address ADDRESS" in problem
    assert "--address none" in problem


def test_a_resume_with_impossible_wishes_is_refused(earlier: Path) -> None:
    row = {**read_settings(earlier).base.row(), "status": "finished"}
    Ledger(earlier).trials.append(row | {"trial_id": name} for name in ("00000", "00001"))
    problems = problems_of(invoke("resume", earlier, "--trials", "1", "--until", "x", "--epoch-budget", "0"))
    assert len(problems) == 3
    assert any("--trials 1: 2 trials have ended already" in problem for problem in problems)


def test_a_grid_cannot_be_widened(accepted: Callable[..., list[TrialSpec]], out: Path) -> None:
    accepted("--sampler", "grid", "--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-5")
    (problem,) = problems_of(invoke("resume", out, "--trials", "3"))
    assert "the grid of this sweep has 2 and cannot have more" in problem
    assert f"--reuse {out}" in problem


@pytest.mark.parametrize("command", ["resume", "report"])
def test_a_folder_without_a_sweep_cannot_be_resumed_or_reported(command: str, tmp_path: Path) -> None:
    (problem,) = problems_of(invoke(command, tmp_path / "nowhere"))
    assert "holds no sweep" in problem
    assert str(tmp_path / "nowhere") in problem
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content", ["{torn", "[]", "{}", '{"settings": {"trials": 3}}', '{"settings": 7}'])
def test_a_sweep_whose_file_is_damaged_is_not_resumed(out: Path, content: str) -> None:
    out.mkdir()
    (out / "sweep.json").write_text(content)
    (problem,) = problems_of(invoke("resume", out))
    assert "sweep.json" in problem
