"""A new sweep reuses values, configurations and whole trials of previous sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from search_spaces.builtin import default_space
from search_spaces.common.front import Criteria
from sweeper.driver.open_sweep import OpenSweep
from sweeper.search.limits import Limits
from sweeper.search.reuse import ReusableTrials
from sweeper.search.warm_start import WarmStart, warm_start
from sweeper.settings.objectives import with_bounds
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.events import TrialRequeued, TrialReused
from sweeper.store.folder import begin
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import OUTCOME, SPACE, bare_sweep, end_trial, open_study, report, running
from trainables.methods import options_by_method
from trainables.run.reports import Status
from trainables.spec import TrialSpec

SETTINGS = SweepSettings(name="s", base=TrialSpec(), space=SPACE, trials=8, sampler="random")
AXES = with_bounds(SETTINGS.parsed_objectives, 10.0)
KEY = "the target"
CONFIGS: tuple[dict[str, Any], ...] = (
    {"method": "gdiff", "lr": 1e-4, "c": 0.9},
    {"method": "ngdiff", "lr": 2e-5},
    {"method": "ngdiff", "lr": 1e-3},
    {"method": "gdiff", "lr": 5e-4, "c": 0.2},
)
VALUES = ((5.0, 1.0), (1.0, 0.5), (4.0, 4.0), (9.0, 3.0))
"""Values in a box of 10 x 10. The third is dominated; the last has the largest contribution."""


def sweep_of_configs(
    out: Path, folders: Sequence[Path] = (), *, every_epoch: bool = True, **controller: Any
) -> OpenSweep:
    """A sweep that proposes the points of CONFIGS and reuses trials of the sweeps in ``folders``."""
    points = [SPACE.params_of({"auto_lr": "off", **config}) for config in CONFIGS]
    given = {
        "make_spec": lambda config: SETTINGS.make_spec(config, target_key=KEY),
        "limits": Limits(epoch_budget=1),
        "reusable": ReusableTrials(folders),
    }
    return bare_sweep(
        out,
        SETTINGS if every_epoch else replace(SETTINGS, candidates="last"),
        study=open_study(out, trials=6, begin={"points": points}, random_guess=10.0),
        **(given | controller),
    )


def write_sweep(out: Path, *, statuses: Mapping[int, str] = MappingProxyType({})) -> Path:
    """Run a sweep of four trials with two epochs each, and write a checkpoint of each trial's first and last epoch."""
    begin(SETTINGS, out)
    sweep = sweep_of_configs(out, limits=Limits())
    for number, values in enumerate(VALUES):
        trial_id, losses = running(sweep), dict(zip(("forget_loss_capped", "retain_loss"), values, strict=True))
        for epoch in (1, 2):
            update = {"step": 10 * epoch, "eta": 0.5}
            now = losses | {"forget_loss_capped": values[0] * epoch / 2, "reported_at": 50.0, "updates": (update,)}
            report(sweep, trial_id, 10 * epoch, **(now | {"epoch": float(epoch)}))
        status, checkpoint = statuses.get(number, "finished"), f"checkpoints/{trial_id}"
        end = {"status": Status(status), "steps": 20, "checkpoint": checkpoint}
        end_trial(sweep, trial_id, replace(OUTCOME, losses={**OUTCOME.losses, **losses}, **end))
        for name in (trial_id, f"{trial_id}-epoch-1"):
            (out / "checkpoints" / name).mkdir()
            (out / "checkpoints" / name / "model.safetensors").write_text(name)
        (out / "items").mkdir(exist_ok=True)
        (out / "items" / f"{trial_id}.json").write_text("{}")
    return out


def taken(out: Path, settings: SweepSettings = SETTINGS, **given: Any) -> WarmStart:
    values = {"target_key": KEY, "max_points": 5, **given}
    return warm_start(out, settings, Criteria(AXES, settings.parsed_constraints), **values)


def test_trials_of_the_same_problem_are_known_with_their_values_whatever_their_seed(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old")
    for settings in (SETTINGS, replace(SETTINGS, seed=7)):
        found = taken(old, settings)
        assert [prior.values for prior in found.priors] == list(VALUES)
        assert [prior.config for prior in found.priors] == [{"auto_lr": "off", **config} for config in CONFIGS]
        assert (found.priors[0].origin, found.points) == ("old/00000", ())


@pytest.mark.parametrize(
    ("base", "key", "named"),
    [
        (TrialSpec(epochs=4), KEY, ["epochs", "15", "4"]),
        (TrialSpec(model="tiny-gpt2"), "x", ["model", "tiny-phi", "tiny-gpt2"]),
        (TrialSpec(), "another", []),
    ],
)
def test_of_another_problem_only_the_front_is_tried(
    tmp_path: Path, base: TrialSpec, key: str, named: list[str]
) -> None:
    old = write_sweep(tmp_path / "old")
    found = taken(old, replace(SETTINGS, base=base), target_key=key)
    assert found.priors == ()
    # Ordered by contribution to the hypervolume, without the dominated configuration.
    assert [point["lr"] for point in found.points] == [5e-4, 1e-4, 2e-5]
    assert found.points[0] == {"method": "gdiff", "lr": 5e-4, "1-gdiff.c": 0.8}
    assert all(word in " ".join(found.differences) for word in named)
    few = taken(old, replace(SETTINGS, base=base), target_key=key, max_points=1)
    assert [point["lr"] for point in few.points] == [5e-4]


def test_only_finished_trials_inside_the_space_are_learned_from(tmp_path: Path) -> None:
    narrow = replace(SETTINGS, space=default_space(methods=options_by_method(("ngdiff",)), lr_range=(1e-5, 1e-4)))
    found = taken(write_sweep(tmp_path / "old"), narrow)
    assert [prior.config["lr"] for prior in found.priors] == [2e-5]
    assert (found.finished, found.outside) == (4, 3)
    out = write_sweep(tmp_path / "ended", statuses={0: "diverged", 1: "failed", 2: "stopped"})
    assert [prior.values for prior in taken(out).priors] == [(9.0, 3.0)]


def rows(sweep: OpenSweep) -> dict[str, dict[str, str]]:
    return {row["trial_id"]: row for row in ResultTables(sweep.out).trials.read()}


def test_a_trial_that_a_previous_sweep_ran_is_not_run_again_but_copied_with_its_rows_and_checkpoints(
    tmp_path: Path,
) -> None:
    old = write_sweep(tmp_path / "old", statuses={0: "diverged", 1: "failed"})
    sweep = sweep_of_configs(tmp_path / "new", [old])
    assert (running(sweep), running(sweep)) == ("00001", "00004"), "the trial that had failed, and a new trial"
    assert {name: (row["status"], row["reused_from"]) for name, row in rows(sweep).items()} == {
        "00000": ("diverged", f"{old}/00000"),
        "00002": ("finished", f"{old}/00002"),
        "00003": ("finished", f"{old}/00003"),
    }
    other = {"make_spec": lambda config: SETTINGS.make_spec(config, target_key="another")}
    assert running(sweep_of_configs(tmp_path / "other", [old], **other)) == "00000", "another target is another trial"
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
    sweep = sweep_of_configs(tmp_path / "new", [write_sweep(tmp_path / "old")], every_epoch=False)
    assert sweep.controller.queue_next()
    assert len(rows(sweep)) == 4
    assert sweep.log.state.trained_epochs == 0.0
    # In hundredths: 9 * 7 for (9, 3), and the parts that (5, 1) and (1, 0.5) add to it.
    assert sweep.controller.study.archive.trace[-1] == pytest.approx((9 * 7 + 5 * 2 + 1 * 0.5) / 100)
    again = sweep_of_configs(tmp_path / "new", [], every_epoch=False)
    assert again.log.state.trained_epochs == 0.0, "after a resume, too"
    assert again.controller.study.archive.trace == sweep.controller.study.archive.trace


def test_a_reuse_that_was_killed_halfway_is_repeated_whole(tmp_path: Path) -> None:
    old = write_sweep(tmp_path / "old")
    sweep = sweep_of_configs(tmp_path / "new", [])
    trial_id = running(sweep)
    sweep.log.record(TrialReused(trial_id, f"{old}/00000"))
    report(sweep, trial_id, 10)
    sweep.log.record(TrialRequeued(trial_id, -1))
    again = sweep_of_configs(tmp_path / "new", [old])
    assert again.controller.queue_next()
    assert sorted(rows(again)) == ["00000", "00001", "00002", "00003"]
    assert len(ResultTables(again.out).history.read()) == 8
