"""``confirm``: what is refused before any work, the dry run, and what ``pareto --confirm`` stores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sweeper.cli.outcome import run_to_the_end
from sweeper.store.event_log import EventLog
from sweeper.store.events import OptunaTrial, TrialEnded, TrialProposed
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from tests.sweeper.cli.conftest import Accepted, invoke, json_of, names, refused, summary_of
from tests.sweeper.conftest import outcome


def record(out: Path, trial_id: str, *, config: Mapping[str, Any] | None, epochs: float = 15.0) -> None:
    """Record a finished trial. Without a configuration, it is a trial whose origin is not known."""
    settings = read_settings(out)
    spec = settings.make_spec(config or {"seed": 0}, target_key="key")
    row = {"spec_hash": spec.spec_hash, **spec.row()}
    log = EventLog(out / "events.jsonl")
    log.record(TrialProposed(trial_id, row, OptunaTrial(user_attrs={"config": dict(config)} if config else {})))
    losses = {"forget_loss": 3.0, "forget_loss_capped": 3.0, "retain_loss": 0.1}
    log.record(TrialEnded(trial_id, outcome(steps=9, epochs_done=epochs, **losses)))
    tables = ResultTables(out)
    tables.candidates.append([{"trial_id": trial_id, "epoch": epochs, "step": 9, **losses}])
    tables.trials.append([log.state.trials[trial_id].row()])


@pytest.fixture
def sweep(accepted: Accepted, out: Path) -> Path:
    """A sweep of two trials without a target, so without an answer. Trial 00001 has no configuration."""
    accepted("--trials", "4", "--method", "ngdiff", "--confirm", "3")
    record(out, "00000", config={"method": "ngdiff", "lr": 1e-4, "seed": 0})
    record(out, "00001", config=None)
    return out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), [["no", "answer", "--trial"]]),
        (("--runs", "0", "--epoch", "2"), [["--runs", "1", "0"], ["--epoch", "--trial"], ["no", "answer"]]),
        (("--trial", "00009"), [["00009", "00000", "00001"]]),
        (("--trial", "confirm-000", "--runs", "x"), [["--runs", "x"], ["confirm-000"]]),
        (("--trial", "00000", "--epoch", "3"), [["--epoch", "3", "00000", "15"]]),
        (("--trial", "00001"), [["00001", "cannot be trained again"]]),
    ],
)
def test_what_cannot_be_confirmed_is_refused_with_all_problems(
    sweep: Path, options: tuple[str, ...], expected: list[list[str]]
) -> None:
    problems = refused("confirm", sweep, *options)
    assert len(problems) == len(expected)
    assert all(names(problem, words) for problem, words in zip(problems, expected, strict=True))


def test_a_folder_without_a_sweep_or_without_its_event_log_is_refused(sweep: Path, tmp_path: Path) -> None:
    assert names(refused("confirm", tmp_path / "nothing")[0], [str(tmp_path / "nothing"), "no", "sweep"])
    (sweep / "events.jsonl").unlink()
    assert names(refused("confirm", sweep, "--trial", "00000")[0], ["events.jsonl"])


def test_the_dry_run_has_the_seeds_and_the_cost(sweep: Path) -> None:
    plan = json_of("confirm", sweep, "--trial", "00000", "--runs", "2", "--dry-run")
    assert {name: plan[name] for name in ("trial_id", "epoch", "seeds", "epochs", "max_epochs")} == {
        "trial_id": "00000", "epoch": 15.0, "seeds": [1, 2], "epochs": 30.0, "max_epochs": 30.0,
    }  # fmt: skip
    assert names(invoke("confirm", sweep, "--trial", "00000", "--dry-run").stdout, ["1, 2, 3", "45 epochs"])


@pytest.mark.parametrize(
    ("options", "trial_id", "epoch"), [((), "00000", None), (("--epoch", "15", "--runs", "5"), "00000", 15.0)]
)
def test_confirm_runs_only_fresh_runs_with_the_given_settings(
    sweep: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], trial_id: str, epoch: float | None
) -> None:
    asked: list[dict[str, Any]] = []

    def run(out: Path, **given: Any) -> Any:
        asked.append(given)
        return summary_of(out, fresh_runs=[{"trial_id": trial_id, "epoch": 15.0, "runs": 3, "met": 2}])

    monkeypatch.setattr("sweeper.sweep.run", run)
    monkeypatch.setattr("sweeper.cli.sweeps.run_to_the_end", run_to_the_end)  # the fixture has replaced it
    result = invoke("confirm", sweep, "--trial", trial_id, *options)
    assert result.exit_code == 0, result.output
    (given,) = asked
    changes = {name: given["changes"][name] for name in ("confirm", "confirm_trial", "confirm_epoch")}
    assert changes == {"confirm": 5 if options else 3, "confirm_trial": trial_id, "confirm_epoch": epoch}
    assert given["search"] is False
    assert "the configuration of trial 00000 after epoch 15 meets the criterion in 2 of 3 fresh runs" in result.stdout


@pytest.mark.parametrize(
    ("options", "confirm", "epochs"),
    [
        (("--confirm", "2"), 2, 30),
        (("--confirm", "none"), "none", None),
        ((), None, 45),
    ],
)
def test_pareto_stores_and_plans_the_number_of_fresh_runs(
    accepted: Accepted, out: Path, options: tuple[str, ...], confirm: object, epochs: int | None
) -> None:
    accepted("--trials", "4", *options)
    assert read_settings(out).confirm == confirm
    plan = json_of("pareto", "--dry-run", "--out", out.with_name("new"), *options)["confirm"]
    assert (plan and plan["epochs"]) == epochs


def test_no_fresh_run_is_refused_and_the_paper_has_none() -> None:
    assert names(refused("pareto", "--confirm", "0")[0], ["--confirm", "1", "0"])
    assert json_of("pareto", "--space", "paper", "--dry-run")["confirm"] is None
    assert json_of("lr-study", "--dry-run")["confirm"] is None
