"""A new sweep reuses values, configurations and whole trials of previous sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.builtin import default_space
from sweeper.driver.open_sweep import OpenSweep
from sweeper.search.reuse import ReusableTrials
from sweeper.search.stopping import Stopping
from sweeper.search.warm_start import PreviousSweep, WarmStart, warm_start
from sweeper.settings.objectives import axes
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import Kind
from sweeper.store.folder import begin
from sweeper.store.state import SweepState
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import SPACE, bare_sweep, open_study, report, run_trial, running
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
"""Values in a box of 10 x 10. The third is dominated; the last has the largest contribution."""


def write_sweep(out: Path, settings: SweepSettings = SETTINGS, statuses: Mapping[int, str] | None = None) -> Path:
    """Write a sweep of four trials with two epochs each, and a checkpoint of each trial's first epoch."""
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


def reusing(out: Path, folders: list[Path], *, every_epoch: bool = True, **controller: Any) -> OpenSweep:
    """A sweep that proposes the points of CONFIGS and reuses trials of the sweeps in ``folders``."""
    points = [SPACE.params_of({"auto_lr": "off", **config}) for config in CONFIGS]
    out.mkdir(exist_ok=True)
    given = {
        "make_spec": lambda config: SETTINGS.make_spec(config, target_key=KEY),
        "stopping": Stopping(epoch_budget=1),
        "reusable": ReusableTrials(out, folders),
    }
    return bare_sweep(
        out,
        SETTINGS if every_epoch else replace(SETTINGS, candidates="last"),
        study=open_study(out, trials=6, begin={"points": points}, random_guess=10.0),
        **(given | controller),
    )


def rows(sweep: OpenSweep) -> dict[str, dict[str, str]]:
    return {row["trial_id"]: row for row in ResultTables(sweep.out).trials.read()}


def test_a_trial_that_a_previous_sweep_ran_is_not_run_again(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old", statuses={1: "failed", 3: "diverged"})
    sweep = reusing(tmp_path / "new", [old])
    first, second = sweep.controller.next_trial(), sweep.controller.next_trial()
    assert first is not None
    assert second is not None
    assert (first.id, first.spec.lr) == ("00001", 2e-5), "the first is reused, the second had failed"
    assert second.id == "00004"
    assert {name: (row["status"], row["reused_from"]) for name, row in rows(sweep).items()} == {
        "00000": ("finished", f"{old}/00000"),
        "00002": ("finished", f"{old}/00002"),
        "00003": ("diverged", f"{old}/00003"),
    }


def test_a_reused_trial_has_all_its_rows_and_checkpoints_under_its_new_id(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old", statuses={0: "failed"})
    sweep = reusing(tmp_path / "new", [old])
    while sweep.controller.next_trial() is not None and len(rows(sweep)) < 3:
        pass
    before, after = ResultTables(old), ResultTables(sweep.out)
    for log, other in ((before.trials, after.trials), (before.history, after.history), (before.auto_lr, after.auto_lr)):
        own = [row for row in log.read() if row["trial_id"] == "00003"]
        assert own
        copied = [row for row in other.read() if row["trial_id"] == "00003"]
        assert [{**row, "reused_from": ""} if "reused_from" in row else row for row in copied] == own
    path = Path("checkpoints/00003/model.safetensors")
    assert (sweep.out / path).samefile(old / path)
    assert (sweep.out / "items/00003.json").is_file()
    # (9, 3) dominates (4.5, 3) of the trial's first epoch.
    assert not (sweep.out / "checkpoints/00003-epoch-1").exists()
    assert (old / "checkpoints/00003-epoch-1").exists()


def test_reused_trials_are_learned_from_and_cost_no_epochs(tmp_path: Path) -> None:
    sweep = reusing(tmp_path / "new", [write_sweep(tmp_path / "old")], every_epoch=False)
    assert sweep.controller.has_next()
    assert len(rows(sweep)) == 4
    assert sweep.log.state.trained_epochs == 0.0
    # 9 * 7 hundredths, and what (5, 1) and (1, 0.5) add beyond retain losses of 3 and 1.
    assert sweep.controller.study.archive.trace[-1] == pytest.approx((9 * 7 + 5 * 2 + 1 * 0.5) / 100)
    again = reusing(tmp_path / "new", [], every_epoch=False)
    assert again.log.state.trained_epochs == 0.0, "after a resume, too"
    assert again.controller.study.archive.trace == sweep.controller.study.archive.trace


def test_a_point_that_is_proposed_again_is_not_run_again(tmp_path: Path) -> None:
    def same_point(config: Mapping[str, Any]) -> TrialSpec:
        return SETTINGS.make_spec({"auto_lr": "off", "seed": 0, **CONFIGS[0]}, target_key=KEY)

    sweep = reusing(tmp_path / "new", [], make_spec=same_point, stopping=Stopping())
    assert run_trial(sweep) == "00000"
    assert sweep.controller.next_trial() is None, "the others, six in all, are the same point"
    found = list(rows(sweep).values())
    assert [row["reused_from"] for row in found] == ["", *[f"{sweep.out}/00000"] * (len(found) - 1)]
    assert len(found) == 6
    assert len({row["forget_loss"] for row in found}) == 1
    assert sweep.log.state.trained_epochs == 2.0, "trained once"
    spec_hash, state = found[0]["spec_hash"], sweep.log.state
    assert ReusableTrials(sweep.out).find(spec_hash, state) is not None
    assert ReusableTrials(sweep.out, own=False).find(spec_hash, state) is None


def test_epochs_without_losses_were_not_evaluated(tmp_path: Path) -> None:
    """Without candidates.csv, only the losses of history.csv show which epochs were evaluated."""
    old = write_sweep(tmp_path / "old")
    (old / "candidates.csv").unlink()
    log = ResultTables(old).history
    log.rewrite([row | {"retain_loss": "" if row["epoch"] == "1.0" else "2.0"} for row in log.read()])
    log.rewrite([row | ({"forget_loss_capped": ""} if row["epoch"] == "1.0" else {}) for row in log.read()])
    spec = SETTINGS.make_spec({"auto_lr": "off", "seed": 0, **CONFIGS[0]}, target_key=KEY)
    cached = ReusableTrials(tmp_path / "new", [old]).find(spec.spec_hash, SweepState())
    assert cached is not None
    assert [item["evaluated"] for item in cached.reports()] == [False, True]


def test_another_target_is_another_trial(tmp_path: Path) -> None:
    sweep = reusing(
        tmp_path / "new",
        [write_sweep(tmp_path / "old")],
        make_spec=lambda config: SETTINGS.make_spec(config, target_key="another"),
    )
    assert sweep.controller.has_next()
    assert rows(sweep) == {}


def test_a_reuse_that_was_killed_halfway_is_repeated_whole(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old")
    sweep = reusing(tmp_path / "new", [])
    trial_id = running(sweep)
    sweep.log.record(Kind.TRIAL_REUSED, trial_id, {"origin": f"{old}/00000"})
    report(sweep, trial_id, 10)
    sweep.log.record(Kind.TRIAL_REQUEUED, trial_id, {"step": -1})
    again = reusing(tmp_path / "new", [old])
    assert again.controller.has_next()
    assert sorted(rows(again)) == ["00000", "00001", "00002", "00003"]
    assert len(ResultTables(again.out).history.read()) == 8
