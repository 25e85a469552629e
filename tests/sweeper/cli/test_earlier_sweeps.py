"""Sweeps that use previous sweeps, and sweeps that are resumed with changed settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sweeper.execution.placement import PlacementError
from sweeper.store.folder import read_settings
from tests.sweeper.cli.conftest import Accepted, Command, invoke, names, problems_of, record_trial, refused


@pytest.fixture
def earlier(accepted: Accepted, out: Path) -> Path:
    """The folder of a sweep without trials."""
    accepted("--trials", "4")
    return out


def test_other_objectives_and_impossible_changes_are_refused(earlier: Path, pareto: Command, tmp_path: Path) -> None:
    (problem,) = problems_of(
        pareto("--warm-start", earlier, "--objectives", "verbmem:min,utility:max", out=tmp_path / "new")
    )
    assert names(problem, [str(earlier), "forget_loss:max,retain_loss:min"])
    row = {**read_settings(earlier).base.row(), "status": "stopped"}
    for name in ("00000", "00001"):
        record_trial(earlier, row | {"trial_id": name})
    expected = ("--epoch-budget 0", "--extend", "--trials 1 2", "--until x")
    problems = refused("resume", earlier, "--trials", "1", "--until", "x", "--epoch-budget", "0", "--extend")
    assert all(names(problem, named.split()) for problem, named in zip(problems, expected, strict=True))


def test_what_the_search_starts_from_is_in_the_settings(earlier: Path, pareto: Command, tmp_path: Path) -> None:
    new = tmp_path / "new"
    (tmp_path / "points.yaml").write_text("- {lr: 1e-4}\n- {c: 0.5, method: gdiff}\n")
    result = pareto(
        *("--tracking-uri", "sqlite:///m.db", "--warm-start", os.path.relpath(earlier), "--reuse", earlier),
        *("--enqueue", "lr=1e-3,c=0.5", "--enqueue", tmp_path / "points.yaml", "--constraint", "utility>=70%"),
        *("--until", "plateau:5", "--epoch-budget", "40", "--sampler", "gp"),
        # The order of objectives does not matter.
        *("--objectives", "retain_loss:min,forget_loss:max"),
        out=new,
    )
    assert result.exit_code == 0, result.output
    settings = read_settings(new)
    assert settings.enqueue == ({"lr": 1e-3, "c": 0.5}, {"lr": 1e-4}, {"c": 0.5, "method": "gdiff"})
    assert settings.warm_start == settings.reuse == (str(earlier),)
    assert settings.constraints == ("utility>=70%",)
    assert (settings.until, settings.epoch_budget, settings.sampler) == ("plateau:5", 40, "gp")
    assert settings.trials == 14  # of 15 epochs at most, and 2.94 on average


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("", {}),
        ("--trials 64 --until none --epoch-budget 90", {"trials": 64, "until": "none", "epoch_budget": 90}),
        ("--address none", {"address": None}),
    ],
)
def test_resume_changes_what_is_given(
    earlier: Path, monkeypatch: pytest.MonkeyPatch, typed: str, expected: dict[str, object]
) -> None:
    recorded: list[dict[str, object]] = []
    run = "sweeper.cli.sweeps.run_to_the_end"
    monkeypatch.setattr(run, lambda out, as_json, changes, **more: recorded.append(changes))
    assert invoke("resume", earlier, *typed.split()).exit_code == 0
    assert recorded == [expected]


def test_a_resume_on_a_cluster_that_is_gone_names_the_options_that_help(
    earlier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*given: object, **more: object) -> None:
        raise PlacementError("--address 10.0.0.1:6379: no Ray cluster answers there")

    monkeypatch.setattr("sweeper.cli.sweeps.run_to_the_end", gone)
    (problem,) = refused("resume", earlier)
    assert names(problem, ["--address 10.0.0.1:6379", "--address ADDRESS", "--address none"])


def test_a_grid_cannot_be_widened(accepted: Accepted, out: Path) -> None:
    accepted("--sampler", "grid", "--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-5")
    assert names(refused("resume", out, "--trials", "3")[0], ["2", f"--reuse {out}"])
