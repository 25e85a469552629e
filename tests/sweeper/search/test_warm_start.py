"""What a new sweep takes from earlier ones: values, configurations, whole trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from sweeper.search.cached_trials import cached_trials
from sweeper.session import SweepSession

from search_spaces.builtin import default_space
from sweeper.followers.checkpoints import CheckpointManager
from sweeper.search.stopping import Stopping
from sweeper.search.warm_start import PreviousSweep, WarmStart, warm_start
from sweeper.settings.objectives import axes
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import begin
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import SPACE, bare_session, open_study, run_trial
from trainables.methods import options_by_method
from trainables.spec import TrialSpec

SETTINGS = SweepSettings(name="s", base=TrialSpec(), space=SPACE, trials=8, sampler="random")
AXES = axes(SETTINGS.parsed_objectives, 10.0)
KEY = "the target"
CONFIGS: tuple[dict[str, Any], ...] = (
    {"method": "gdiff", "lr": 1e-4, "c": 0.9},
    {"method": "ngdiff", "lr": 2e-5},
    {"method": "ngdiff", "lr": 1e-3},
    {"method": "gdiff", "lr": 5e-4, "c": 0.2},
)
VALUES = ((5.0, 1.0), (1.0, 0.5), (4.0, 4.0), (9.0, 3.0))
"""Of a box of 10 x 10; the third is dominated, and the last alone adds most."""


def write_sweep(out: Path, settings: SweepSettings = SETTINGS, statuses: Mapping[int, str] | None = None) -> Path:
    """A sweep of four trials of two epochs, the first one's second with a kept model of its first."""
    begin(settings, out)
    tables = ResultTables(out, every_epoch=True)
    for number, (config, (forget, retain)) in enumerate(zip(CONFIGS, VALUES, strict=True)):
        trial_id = f"{number:05d}"
        spec = settings.make_spec({"auto_lr": "off", "seed": 0, **config}, target_key=KEY)
        for epoch in (1, 2):
            values = {"forget_loss_capped": forget * epoch / 2, "retain_loss": retain, "lr": config["lr"]}
            update = {"step": 10 * epoch, "eta": 0.5}
            report = {"step": 10 * epoch, "epoch": float(epoch), **values, "auto_lr": [update]}
            tables.add_report(trial_id, report, checkpoint=f"checkpoints/{trial_id}-epoch-1" if epoch == 1 else "")
        for name in (trial_id, f"{trial_id}-epoch-1"):
            (out / "checkpoints" / name).mkdir()
            (out / "checkpoints" / name / "model.safetensors").write_text(name)
        (out / "items").mkdir(exist_ok=True)
        (out / "items" / f"{trial_id}.json").write_text("{}")
        tables.add_trial(
            {
                "trial_id": trial_id,
                "spec_hash": spec.spec_hash,
                **spec.row(),
                "status": (statuses or {}).get(number, "finished"),
                "steps": 20,
                "epochs_done": 2.0,
                "forget_loss_capped": forget,
                "retain_loss": retain,
                "wall_seconds": 3.5,
                "ended_at": 100.0 + number,
                "checkpoint": f"checkpoints/{trial_id}",
                "worker": "host:7",
            }
        )
    tables.write()
    return out


def taken(out: Path, settings: SweepSettings = SETTINGS, **given: Any) -> WarmStart:
    values = {"target_key": KEY, "baseline": {}, "most": 5, **given}
    return warm_start(PreviousSweep.read(out), settings, AXES, **values)


# Warm starts --------------------------------------------------------------------------------------------------------


def test_trials_of_the_same_problem_are_known_with_their_values_whatever_their_seed(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old")
    for settings in (SETTINGS, replace(SETTINGS, seed=7)):
        found = taken(old, settings)
        assert [prior.result.values for prior in found.priors] == list(VALUES)
        assert [prior.config for prior in found.priors] == [{"auto_lr": "off", **config} for config in CONFIGS]
        assert (found.priors[0].origin, found.points) == ("old/00000", ())


@pytest.mark.parametrize(
    ("base", "key", "named"),
    [
        (TrialSpec(epochs=4), KEY, ["epochs", "15", "4"]),
        (TrialSpec(model="tiny-gpt2"), "x", ["model", "tiny-phi", "tiny-gpt2"]),
        (TrialSpec(forget_split="forget01"), "x", ["forget_split", "forget01"]),
        (TrialSpec(), "another", []),
    ],
)
def test_of_another_problem_only_the_front_is_tried(
    tmp_path: Path, base: TrialSpec, key: str, named: list[str]
) -> None:
    old = write_sweep(tmp_path / "old")
    found = taken(old, replace(SETTINGS, base=base), target_key=key)
    assert found.priors == ()
    # What adds most to the hypervolume first, and nothing that is dominated.
    assert [point["lr"] for point in found.points] == [5e-4, 1e-4, 2e-5]
    assert found.points[0] == {"method": "gdiff", "lr": 5e-4, "1-gdiff.c": 0.8}
    assert all(word in " ".join(found.differences) for word in named)
    few = taken(old, replace(SETTINGS, base=base), target_key=key, most=1)
    assert [point["lr"] for point in few.points] == [5e-4]


def test_only_finished_trials_inside_the_space_are_learned_from(tmp_path: Path) -> None:
    narrow = replace(SETTINGS, space=default_space(methods=options_by_method(("ngdiff",)), lr_range=(1e-5, 1e-4)))
    found = taken(write_sweep(tmp_path / "old"), narrow)
    assert [prior.config["lr"] for prior in found.priors] == [2e-5]
    assert (found.finished, found.outside) == (4, 3)
    out = write_sweep(tmp_path / "ended", statuses={0: "diverged", 1: "failed", 2: "stopped"})
    assert [prior.result.values for prior in taken(out).priors] == [(9.0, 3.0)]


# Trials reused ----------------------------------------------------------------------------------------------------


def session_of(out: Path, folders: list[Path], *, every_epoch: bool = True) -> SweepSession:
    points = [SPACE.params_of({"auto_lr": "off", **config}) for config in CONFIGS]
    out.mkdir(exist_ok=True)
    return bare_session(
        out,
        study=open_study(out, trials=6, begin={"points": points}, random_guess=10.0),
        tables=ResultTables(out, every_epoch=every_epoch),
        make_spec=lambda config: SETTINGS.make_spec(config, target_key=KEY),
        front=CheckpointManager(out, SETTINGS.goals) if every_epoch else None,
        stopping=Stopping(epoch_budget=1),
        known=cached_trials(folders),
    )


def test_a_trial_that_an_earlier_sweep_ran_is_not_run_again(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old", statuses={1: "failed", 3: "diverged"})
    session = session_of(tmp_path / "new", [old])
    first = session.next_trial()
    assert first is not None
    assert (first[0].trial_id, first[1].lr) == ("00001", 2e-5)  # the first is reused, the second had failed
    second = session.next_trial()
    assert second is not None
    assert second[0].trial_id == "00004"
    rows = {row["trial_id"]: row for row in session.tables.trials.read()}
    assert {name: (row["status"], row["reused_from"]) for name, row in rows.items()} == {
        "00000": ("finished", f"{old}/00000"),
        "00002": ("finished", f"{old}/00002"),
        "00003": ("diverged", f"{old}/00003"),
    }


def test_a_reused_trial_has_all_its_rows_and_models_under_its_new_id(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old", statuses={0: "failed"})
    session = session_of(tmp_path / "new", [old])
    while session.next_trial() is not None and len(session.tables.trials.read()) < 3:
        pass
    before, after = ResultTables(old), session.tables
    for log, other in ((before.trials, after.trials), (before.history, after.history), (before.auto_lr, after.auto_lr)):
        own = [row for row in log.read() if row["trial_id"] == "00003"]
        assert own
        there = [row for row in other.read() if row["trial_id"] == "00003"]
        assert [{**row, "reused_from": ""} if "reused_from" in row else row for row in there] == own
    path = Path("checkpoints/00003/model.safetensors")
    assert (session.tables.out / path).samefile(old / path)
    assert (session.tables.out / "items/00003.json").is_file()
    # (9, 3) and, of its first epoch, (4.5, 3): dominated within the trial, so its model is not kept.
    assert not (session.tables.out / "checkpoints/00003-epoch-1").exists()
    assert (old / "checkpoints/00003-epoch-1").exists()


def test_reused_trials_are_learned_from_and_cost_no_epochs(tmp_path: Path) -> None:
    session = session_of(tmp_path / "new", [write_sweep(tmp_path / "old")], every_epoch=False)
    assert session.has_next()
    assert len(session.tables.trials.read()) == 4
    assert session.stopping.epochs == 0.0
    # 9 * 7 hundredths, and what (5, 1) and (1, 0.5) add beyond retain losses of 3 and 1.
    assert session.study.archive.trace[-1] == pytest.approx((9 * 7 + 5 * 2 + 1 * 0.5) / 100)


def test_a_point_that_is_proposed_again_is_not_run_again(tmp_path: Path) -> None:
    session = session_of(tmp_path / "new", [])
    made = session.make_spec
    session.make_spec = lambda config: made({"auto_lr": "off", "seed": 0, **CONFIGS[0]})
    session.stopping = Stopping()
    assert run_trial(session) == "00000"
    assert session.next_trial() is None, "the others, six in all, are the same point"
    rows = session.tables.trials.read()
    assert [row["reused_from"] for row in rows] == ["", *[f"{tmp_path}/new/00000"] * (len(rows) - 1)]
    assert len(rows) == 6
    assert len({row["forget_loss"] for row in rows}) == 1
    assert session.stopping.epochs == 2.0, "trained once"
    again = session_of(tmp_path / "new", [])
    assert again._done == {rows[0]["spec_hash"]}, "after a resume, too"
    again.syncer = Mock()
    assert again._own(rows[0]["spec_hash"]) is None, "its models may still be on their way from the bucket"


def test_a_scheduler_judges_a_resumed_sweep_without_reused_trials(tmp_path: Path) -> None:
    session = session_of(tmp_path / "new", [write_sweep(tmp_path / "old", statuses={1: "failed"})])
    session.next_trial()
    session.reported("00001", {"step": 10, "epoch": 1.0, "forget_loss": 2.0})
    assert {row["trial_id"] for row in session.tables.history.read()} > {"00001"}
    assert {row["trial_id"] for row in session.tables.trained_here()} == {"00001"}


def test_epochs_without_losses_were_not_evaluated(tmp_path: Path) -> None:
    """A sweep whose last epochs alone are candidates has no candidates.csv to tell it by."""
    old = write_sweep(tmp_path / "old")
    (old / "candidates.csv").unlink()
    log = ResultTables(old).history
    rows = log.read()
    log.rewrite([row | {"forget_loss": "" if row["epoch"] == "1.0" else "2.0"} for row in rows])
    (known, *_) = cached_trials([old]).values()
    assert [report["evaluated"] for report in known.reports()] == [False, True]


def test_another_target_is_another_trial(tmp_path: Path) -> None:
    session = session_of(tmp_path / "new", [write_sweep(tmp_path / "old")])
    session.make_spec = lambda config: SETTINGS.make_spec(config, target_key="another")
    assert session.has_next()
    assert session.tables.trials.read() == []


def test_a_reuse_that_was_killed_halfway_is_repeated_whole(tmp_path: Path) -> None:
    """The row is written last: a history without it is dropped, and models that are there already are kept."""
    old = write_sweep(tmp_path / "old")
    session = session_of(tmp_path / "new", [old])
    proposal = session.study.ask()
    assert proposal is not None
    session.known[session.make_spec(proposal.config).spec_hash].copy_files(tmp_path / "new", proposal.trial_id)
    for report in cached_trials([old])[session.make_spec(proposal.config).spec_hash].reports():
        session.tables.add_report(proposal.trial_id, report)
    session.tables.write()

    session.tables.mend({})
    again = session_of(tmp_path / "new", [old])
    again.study.restore({})
    assert again.has_next()
    assert [row["trial_id"] for row in again.tables.trials.read()] == ["00000", "00001", "00002", "00003"]
    assert len(again.tables.history.read()) == 8
