"""The study proposes every trial exactly once and knows the truth about each, wherever the driver is killed.

A driver is played here: it asks, writes the row to a dictionary that stands for trials.csv, and tells. What Optuna
then believes is read back from optuna.log by plain Optuna.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from search_spaces.builtin import default_space
from search_spaces.constraint import Constraint, parse_constraint
from search_spaces.parameters import Number
from search_spaces.space import Space
from sweeper.attained import Result
from sweeper.journal import open_journal
from sweeper.samplers import LEARNING, SAMPLERS
from sweeper.search import STUDY_NAME, Prior, Proposal, SweepStudy, format_id
from sweeper.trade_off import DEFAULT_OBJECTIVES, axes, parse_objectives
from trainables.methods import options_by_method

METHODS = options_by_method(("gdiff", "ngdiff"))
SPACE = default_space(methods=METHODS)
GRID = default_space(methods=METHODS, options={"gdiff.c": (0.1, 0.9)}, lr=(1e-4, 1e-5))
SMALL_GRID = default_space(methods=METHODS, options={"gdiff.c": (0.1, 0.9)}, lr=(1e-4,))
TWO = Space(
    (Number("lr", 1e-5, 1e-3, log=True), Number("weight_decay", 0.0, 0.1)), {"method": "ngdiff", "auto_lr": "off"}
)
"""With a single parameter Optuna's genetic samplers mutate it in every child, which is random search."""
LR_EXPONENTS = [-5 + 2 * index / 15 for index in range(16)]
POINTS = [("gdiff", 0.1), ("gdiff", 0.9), ("ngdiff", None)]

Row = dict[str, object]


class Killed(BaseException):
    """The driver dies here."""


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed loses nothing the system has taken, so the tests need no fsync."""
    monkeypatch.setattr(os, "fsync", lambda number: None)


def open_study(
    out: Path,
    *,
    space: Space = SPACE,
    sampler: str = "random",
    trials: int = 4,
    seeds: Sequence[int] = (0,),
    seed: int = 0,
    constraints: Sequence[Constraint] = (),
    begin: Mapping[str, Any] | None = None,
) -> SweepStudy:
    study = SweepStudy(
        open_journal(out),
        space=space,
        objectives=axes(parse_objectives(DEFAULT_OBJECTIVES), 8.0),
        sampler=sampler,
        trials=trials,
        seeds=seeds,
        seed=seed,
        constraints=constraints,
    )
    if begin is not None and not study.has_begun:
        study.begin(**begin)
    return study


def finished_row(config: Mapping[str, Any]) -> Row:
    """A row as a finished trial leaves it, as text, as trials.csv has it; its losses depend on lr alone."""
    distance = abs(math.log10(config["lr"]) + 4)
    return {"status": "finished", "forget_loss_capped": repr(5 - distance), "retain_loss": repr(distance)}


def drive(
    study: SweepStudy,
    rows: dict[str, Row],
    *,
    row_of: Callable[[Mapping[str, Any]], Row] = finished_row,
    proposed: list[Proposal] | None = None,
) -> list[Proposal]:
    """Run the study to its end as the sweep does; returns what was proposed, added to ``proposed``."""
    proposed = [] if proposed is None else proposed
    study.take_up(rows)
    while (proposal := study.ask()) is not None:
        assert proposal.trial_id not in rows, f"trial {proposal.trial_id} has a row and is run again"
        proposed.append(proposal)
        rows[proposal.trial_id] = row_of(proposal.config)
        study.tell(proposal.trial_id, rows[proposal.trial_id])
    return proposed


def plain_trials(out: Path) -> list[FrozenTrial]:
    """What Optuna believes, without this project."""
    storage = JournalStorage(JournalFileBackend(str(out / "optuna.log")))
    found: list[FrozenTrial] = optuna.load_study(study_name=STUDY_NAME, storage=storage).trials
    return found


def states(out: Path) -> Counter[str]:
    return Counter(trial.state.name for trial in plain_trials(out) if "prior" not in trial.user_attrs)


def kill_at(monkeypatch: pytest.MonkeyPatch, number: int, *, share: float) -> None:
    """Die at write ``number`` to optuna.log (from 1), when ``share`` of its bytes are on disk."""
    append_logs = JournalFileBackend.append_logs
    writes = 0

    def append(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        nonlocal writes
        writes += 1
        if writes < number:
            append_logs(backend, logs)
            return
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs).encode()
        with open(backend._file_path, "ab") as file:
            file.write(lines[: int(share * len(lines))])
        raise Killed

    monkeypatch.setattr(JournalFileBackend, "append_logs", append)


# An undisturbed sweep -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "grid"])
def test_every_sampler_proposes_exactly_the_trials_asked_for(tmp_path: Path, sampler: str) -> None:
    proposed = drive(open_study(tmp_path, sampler=sampler, trials=14), {})
    assert [proposal.trial_id for proposal in proposed] == [f"{number:05d}" for number in range(14)]
    configurations = {json.dumps(proposal.config, sort_keys=True) for proposal in proposed}
    # A child of NSGA-II may equal a parent; the other samplers draw every value anew.
    assert len(configurations) >= (10 if sampler in ("nsga2", "nsga3") else 14)
    assert states(tmp_path) == {"COMPLETE": 14}


def test_no_trial_is_proposed_beyond_the_number_asked_for(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=2)
    assert [study.ask() is not None for _ in range(4)] == [True, True, False, False]
    assert study.asked == 2


def test_an_option_is_proposed_only_to_the_methods_that_have_it(tmp_path: Path) -> None:
    proposed = drive(open_study(tmp_path, trials=12), {})
    assert {proposal.config["method"] for proposal in proposed} == {"gdiff", "ngdiff"}
    for proposal in proposed:
        assert ("c" in proposal.config) == (proposal.config["method"] == "gdiff")


def test_configurations_are_what_optuna_has_under_the_same_number(tmp_path: Path) -> None:
    proposed = drive(open_study(tmp_path, trials=5), {})
    for proposal, trial in zip(proposed, plain_trials(tmp_path), strict=True):
        assert proposal.trial_id == format_id(trial.number)
        assert proposal.config["method"] == trial.params["method"]
        assert proposal.config["lr"] == trial.params["lr"]
        # c is searched as 1 - c and kept with 12 decimals.
        assert 1 - proposal.config.get("c", 1) == pytest.approx(trial.params.get("1-gdiff.c", 0), abs=1e-11)


def test_the_objectives_and_their_directions_are_in_the_study(tmp_path: Path) -> None:
    drive(open_study(tmp_path, trials=3), {}, row_of=lambda config: {**finished_row(config), "retain_loss": 0.25})
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "optuna.log")))
    study = optuna.load_study(study_name=STUDY_NAME, storage=storage)
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert all(trial.values[1] == 0.25 for trial in study.trials)


@pytest.mark.parametrize(("sampler", "learns"), [(name, name in LEARNING) for name in SAMPLERS if name != "grid"])
def test_a_search_learns_from_what_it_is_told(tmp_path: Path, sampler: str, learns: bool) -> None:
    """Told that the contrary is good, a sampler that learns goes on differently."""

    def contrary(config: Mapping[str, Any]) -> Row:
        row = finished_row(config)
        return {**row, "forget_loss_capped": row["retain_loss"], "retain_loss": row["forget_loss_capped"]}

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one = drive(open_study(tmp_path / "a", sampler=sampler, trials=16), {})
    other = drive(open_study(tmp_path / "b", sampler=sampler, trials=16), {}, row_of=contrary)
    assert one[:4] == other[:4]
    assert (one[-4:] != other[-4:]) == learns


# Seeds and grids ----------------------------------------------------------------------------------------------------


def runs_by_configuration(rows: Mapping[str, Row], proposed: Sequence[Proposal]) -> dict[str, list[int]]:
    """The seeds each configuration was run with, over trials that have a row."""
    found: dict[str, list[int]] = {}
    for proposal in proposed:
        config = dict(proposal.config)
        seed = config.pop("seed")
        if proposal.trial_id in rows:
            found.setdefault(json.dumps(config, sort_keys=True), []).append(seed)
    return found


def test_every_configuration_is_run_once_with_each_seed(tmp_path: Path) -> None:
    rows: dict[str, Row] = {}
    proposed = drive(open_study(tmp_path, trials=9, seeds=(5, 6, 7)), rows)
    found = runs_by_configuration(rows, proposed)
    assert len(found) == 3
    assert all(sorted(seeds) == [5, 6, 7] for seeds in found.values())


def test_a_single_seed_is_the_first_one_given(tmp_path: Path) -> None:
    proposed = drive(open_study(tmp_path, trials=3, seeds=(42,)), {})
    assert [proposal.config["seed"] for proposal in proposed] == [42, 42, 42]


def test_a_grid_is_visited_exactly_once_per_point_and_seed(tmp_path: Path) -> None:
    proposed = drive(open_study(tmp_path, space=GRID, sampler="grid", trials=12, seeds=(0, 1)), {})
    visited = Counter((p.config["method"], p.config.get("c"), p.config["lr"], p.config["seed"]) for p in proposed)
    assert visited == Counter((*point, lr, seed) for point in POINTS for lr in (1e-4, 1e-5) for seed in (0, 1))


def test_a_grid_may_be_cut_short(tmp_path: Path) -> None:
    proposed = drive(open_study(tmp_path, space=GRID, sampler="grid", trials=3), {})
    assert len(proposed) == 3
    assert states(tmp_path)["COMPLETE"] == 3


def test_a_space_with_nothing_to_search_is_a_grid_of_one_point(tmp_path: Path) -> None:
    space = default_space(methods=options_by_method(("ngdiff",)), lr=(1e-4,))
    proposed = drive(open_study(tmp_path, space=space, sampler="grid", trials=2, seeds=(0, 1)), {})
    assert [(p.config["method"], p.config["lr"], p.config["seed"]) for p in proposed] == [
        ("ngdiff", 1e-4, 0),
        ("ngdiff", 1e-4, 1),
    ]


# What Optuna is told ------------------------------------------------------------------------------------------------

FINE: Row = {"status": "finished", "forget_loss_capped": 2.0, "retain_loss": 0.5}
ENDS = {
    "finished": (FINE, "COMPLETE"),
    "finished, as text": ({**FINE, "forget_loss_capped": "2.0", "retain_loss": "0.5"}, "COMPLETE"),
    "finished with NaN": ({**FINE, "retain_loss": math.nan}, "FAIL"),
    "finished with infinity": ({**FINE, "forget_loss_capped": math.inf}, "FAIL"),
    "finished with minus infinity": ({**FINE, "retain_loss": "-inf"}, "FAIL"),
    "finished without an objective": ({"status": "finished", "retain_loss": 0.5}, "FAIL"),
    "finished with an empty cell": ({**FINE, "retain_loss": ""}, "FAIL"),
    "diverged with finite losses": ({**FINE, "status": "diverged"}, "FAIL"),
    "failed": ({"status": "failed", "error": "out of memory"}, "FAIL"),
    "failed with finite losses": ({**FINE, "status": "failed"}, "FAIL"),
    "stopped": ({**FINE, "status": "stopped"}, "PRUNED"),
    "stopped before any report": ({"status": "stopped"}, "PRUNED"),
    "without a status": ({"forget_loss_capped": 2.0, "retain_loss": 0.5}, "FAIL"),
}


@pytest.mark.parametrize(("row", "state"), ENDS.values(), ids=ENDS)
def test_only_a_finished_trial_with_finite_objectives_is_complete(tmp_path: Path, row: Row, state: str) -> None:
    drive(open_study(tmp_path, trials=1), {}, row_of=lambda config: row)
    (trial,) = plain_trials(tmp_path)
    assert trial.state.name == state
    assert trial.values == ([2.0, 0.5] if state == "COMPLETE" else None)


def test_telling_twice_changes_nothing(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=1)
    proposal = study.ask()
    assert proposal is not None
    study.tell(proposal.trial_id, FINE)
    study.tell(proposal.trial_id, {**FINE, "retain_loss": 0.1})
    study.tell(proposal.trial_id, {"status": "failed"})
    (trial,) = plain_trials(tmp_path)
    assert (trial.state, trial.values) == (TrialState.COMPLETE, [2.0, 0.5])


@pytest.mark.parametrize("sampler", ["tpe", "nsga2", "nsga3", "gp", "qmc", "random"])
def test_the_search_goes_on_after_trials_that_failed_or_were_stopped(tmp_path: Path, sampler: str) -> None:
    ends: list[Row] = [FINE, {"status": "failed"}, {**FINE, "status": "stopped"}, {**FINE, "status": "diverged"}]
    numbers = iter(range(100))
    proposed = drive(
        open_study(tmp_path, sampler=sampler, trials=16), {}, row_of=lambda config: ends[next(numbers) % len(ends)]
    )
    assert len(proposed) == 16
    assert states(tmp_path) == {"COMPLETE": 4, "FAIL": 8, "PRUNED": 4}


def test_no_trial_stays_running_when_everything_has_ended_badly(tmp_path: Path) -> None:
    drive(open_study(tmp_path, sampler="tpe", trials=12), {}, row_of=lambda config: {"status": "diverged"})
    assert states(tmp_path) == {"FAIL": 12}


def test_a_trial_whose_epochs_are_candidates_is_told_by_the_best_of_them_if_it_finished(tmp_path: Path) -> None:
    early = {"forget_loss_capped": 4.0, "retain_loss": 1.0}
    study = open_study(tmp_path, trials=2)
    for row in (FINE, {**FINE, "status": "stopped"}):
        proposal = study.ask()
        assert proposal is not None
        study.tell(proposal.trial_id, row, [early, FINE])
    finished, stopped = plain_trials(tmp_path)
    assert finished.values == [4.0, 1.0]
    assert (stopped.state, stopped.values) == (TrialState.PRUNED, None)


def test_what_a_trial_misses_its_constraints_by_is_in_the_study(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=1, constraints=(parse_constraint("utility>=0.7"),))
    proposal = study.ask()
    assert proposal is not None
    study.tell(proposal.trial_id, {**FINE, "utility": 0.5})
    (trial,) = plain_trials(tmp_path)
    assert trial.constraints == {"utility>=0.7": pytest.approx(0.2)}


@pytest.mark.parametrize("sampler", LEARNING)
def test_a_sampler_that_learns_looks_where_the_constraints_are_met(tmp_path: Path, sampler: str) -> None:
    """The best losses are at a high lr, where the constraint is missed by far."""

    def row_of(config: Mapping[str, Any]) -> Row:
        rate = math.log10(config["lr"])  # from -5 to -3
        return {"status": "finished", "forget_loss_capped": 5 + rate, "retain_loss": -rate, "utility": -rate - 4}

    def late(name: str, **given: Any) -> float:
        (tmp_path / name).mkdir()
        study = open_study(tmp_path / name, space=TWO, sampler=sampler, trials=trials, **given)
        return sum(math.log10(p.config["lr"]) for p in drive(study, {}, row_of=row_of)[-5:]) / 5

    trials = 12 if sampler == "gp" else 40  # a second each
    assert late("constrained", constraints=(parse_constraint("utility>=0.5"),)) < late("free") - 0.3


# What is known before the first trial -------------------------------------------------------------------------------


def prior(lr: float, values: tuple[float, float] = (3.0, 1.0)) -> Prior:
    config = {"method": "ngdiff", "auto_lr": "off", "lr": lr, "weight_decay": 0.05}
    return Prior(config, Result(values), f"earlier/{lr:g}")


@pytest.mark.parametrize("sampler", LEARNING)
def test_priors_are_learned_from_and_are_no_trials_of_the_sweep(tmp_path: Path, sampler: str) -> None:
    study = open_study(tmp_path, space=TWO, sampler=sampler, trials=6)
    # At both ends of the range nothing is attained, in the middle all.
    known = [prior(10**exponent, (5 - abs(exponent + 4), abs(exponent + 4))) for exponent in LR_EXPONENTS]
    study.begin(priors=known)
    assert study.has_begun
    assert study.asked == 0
    rows: dict[str, Row] = {}
    proposed = drive(study, rows)
    assert sorted(rows) == [format_id(number) for number in range(6)]
    trials = plain_trials(tmp_path)
    assert [trial.user_attrs.get("prior") for trial in trials[:3]] == [item.origin for item in known[:3]]
    assert len(trials) == len(known) + 6
    assert len(study.attained.trace) == 6
    near = [abs(math.log10(proposal.config["lr"]) + 4) for proposal in proposed]
    assert sum(near) / len(near) < 0.4  # at random it would be 0.5 on average


def test_each_prior_misses_its_constraints_by_its_own(tmp_path: Path) -> None:
    study = open_study(tmp_path, space=TWO, trials=1, constraints=(parse_constraint("utility>=0.7"),))
    config = prior(1e-4).config
    study.begin(priors=[Prior(config, Result((3.0, 1.0), (missed,)), "earlier") for missed in (0.25, -0.125)])
    assert [trial.constraints for trial in plain_trials(tmp_path)] == [{"utility>=0.7": 0.25}, {"utility>=0.7": -0.125}]


def test_points_are_tried_first_once_with_every_seed_and_the_rest_is_sampled(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=8, seeds=(3, 4))
    study.begin(points=[{"method": "gdiff", "1-gdiff.c": 0.25}, {"lr": 2e-5}])
    configs = [proposal.config for proposal in drive(study, {})]
    assert [config["seed"] for config in configs] == [3, 4] * 4
    assert [config.get("c") for config in configs[:2]] == [0.75, 0.75]
    assert configs[0]["lr"] == configs[1]["lr"]
    assert [config["lr"] for config in configs[2:4]] == [2e-5, 2e-5]
    assert configs[4]["lr"] != 2e-5


def test_more_trials_may_be_asked_for_when_all_are_done(tmp_path: Path) -> None:
    rows: dict[str, Row] = {}
    drive(open_study(tmp_path, trials=3, sampler="tpe"), rows)
    kept = dict(rows)
    proposed = drive(open_study(tmp_path, trials=5, sampler="tpe"), rows)
    assert [proposal.trial_id for proposal in proposed] == ["00003", "00004"]
    assert {name: rows[name] for name in kept} == kept


def test_a_study_in_memory_is_asked_and_told_the_same_way(tmp_path: Path) -> None:
    def study(storage: optuna.storages.BaseStorage) -> SweepStudy:
        objectives = axes(parse_objectives(DEFAULT_OBJECTIVES), 8.0)
        return SweepStudy(storage, space=SPACE, objectives=objectives, sampler="tpe", trials=12, seeds=(0,), seed=0)

    in_memory = drive(study(optuna.storages.InMemoryStorage()), {})
    assert in_memory == drive(study(open_journal(tmp_path)), {})


# Kills --------------------------------------------------------------------------------------------------------------

BEGIN: dict[str, Any] = {
    "priors": [Prior({"method": "ngdiff", "auto_lr": "off", "lr": 1e-4}, Result((3.0, 1.0)), "earlier/00000")] * 2,
    "points": [{"method": "gdiff", "1-gdiff.c": 0.25}],
}
SHAPES: dict[str, dict[str, Any]] = {
    "random": {"trials": 3},
    "tpe": {"trials": 6, "sampler": "tpe"},
    "nsga2": {"trials": 6, "sampler": "nsga2"},
    "qmc": {"trials": 4, "sampler": "qmc"},
    "two seeds": {"trials": 4, "seeds": (0, 1)},
    "three seeds": {"trials": 6, "seeds": (0, 1, 2)},
    "priors and points": {"trials": 4, "sampler": "tpe", "seeds": (0, 1), "begin": BEGIN},
    "grid": {"trials": 3, "space": SMALL_GRID, "sampler": "grid"},
    "grid with seeds": {"trials": 6, "space": SMALL_GRID, "sampler": "grid", "seeds": (0, 1)},
}


def journal_writes(out: Path, shape: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often an undisturbed sweep of this shape writes to optuna.log."""
    out.mkdir()
    append_logs = JournalFileBackend.append_logs
    writes = 0

    def append(backend: JournalFileBackend, logs: list[dict[str, Any]]) -> None:
        nonlocal writes
        writes += 1
        append_logs(backend, logs)

    with monkeypatch.context() as patch:
        patch.setattr(JournalFileBackend, "append_logs", append)
        drive(open_study(out, **shape), {})
    return writes


@pytest.mark.parametrize("share", [0.0, 0.6], ids=["before a write", "in the middle of a write"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_killed_at_any_write_and_resumed_the_sweep_has_exactly_its_trials(
    tmp_path: Path, shape: dict[str, Any], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every point between two writes: between ask and record, between seeds, between row and tell."""
    seeds = shape.get("seeds", (0,))
    for number in range(1, journal_writes(tmp_path / "whole", shape, monkeypatch) + 1):
        out = tmp_path / f"killed-{number}"
        out.mkdir()
        rows: dict[str, Row] = {}
        proposed: list[Proposal] = []
        with monkeypatch.context() as patch:
            kill_at(patch, number, share=share)
            with pytest.raises(Killed):
                drive(open_study(out, **shape), rows, proposed=proposed)
        kept = dict(rows)
        drive(open_study(out, **shape), rows, proposed=proposed)

        assert sorted(rows) == [format_id(index) for index in range(shape["trials"])], f"killed at write {number}"
        assert {trial_id: rows[trial_id] for trial_id in kept} == kept
        assert states(out)["COMPLETE"] == shape["trials"], f"killed at write {number}"
        assert states(out)["RUNNING"] == 0
        configs: dict[str, dict[str, Any]] = {}
        for proposal in proposed:
            assert configs.setdefault(proposal.trial_id, proposal.config) == proposal.config
        found = runs_by_configuration(rows, [Proposal(*item) for item in configs.items()])
        assert all(sorted(runs) == list(seeds) for runs in found.values()), f"killed at write {number}: {found}"
        assert len(found) == shape["trials"] // len(seeds)


def test_unfinished_trials_are_proposed_again_under_their_ids_with_identical_values(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=5)
    first = [study.ask() for _ in range(3)]
    assert first[1] is not None
    row = finished_row(first[1].config)
    study.tell(first[1].trial_id, row)

    resumed = open_study(tmp_path, trials=5)
    again = resumed.take_up({first[1].trial_id: row})

    assert again == [first[0], first[2]]
    assert [resumed.ask(), resumed.ask()] == [first[0], first[2]]
    last = [resumed.ask(), resumed.ask(), resumed.ask()]
    assert [proposal.trial_id if proposal else None for proposal in last] == ["00003", "00004", None]


def test_a_second_interruption_proposes_the_same_trials_once_more(tmp_path: Path) -> None:
    first = open_study(tmp_path, trials=3).ask()
    for _ in range(2):
        study = open_study(tmp_path, trials=3)
        assert study.take_up({}) == [first]
        assert study.ask() == first
    assert len(drive(open_study(tmp_path, trials=3), {})) == 3


def test_a_trial_with_a_row_that_was_never_told_is_told_on_resuming(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=3)
    told = [study.ask() for _ in range(3)]
    ends: list[Row] = [FINE, {"status": "diverged"}, {"status": "stopped"}]
    rows = dict(zip((proposal.trial_id for proposal in told if proposal is not None), ends, strict=True))
    resumed = open_study(tmp_path, trials=3)
    assert resumed.take_up(rows) == []
    assert resumed.ask() is None
    assert [trial.state.name for trial in plain_trials(tmp_path)] == ["COMPLETE", "FAIL", "PRUNED"]


def test_a_trial_that_was_told_but_has_no_row_is_run_again_and_stays_as_told(tmp_path: Path) -> None:
    """The disk was full when the row was written: the table is the truth, and the trial is run again."""
    study = open_study(tmp_path, trials=2)
    proposal = study.ask()
    assert proposal is not None
    study.tell(proposal.trial_id, FINE)

    rows: dict[str, Row] = {}
    proposed = drive(open_study(tmp_path, trials=2), rows)

    assert proposed[0] == proposal
    assert sorted(rows) == ["00000", "00001"]
    assert [trial.state.name for trial in plain_trials(tmp_path)] == ["COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("sampler", ["tpe", "random"])  # NSGA-II's children inherit values by design
def test_a_resumed_sampler_does_not_draw_its_first_proposals_again(tmp_path: Path, sampler: str) -> None:
    def floats(proposals: Sequence[Proposal | None]) -> set[float]:
        return {proposal.config["lr"] for proposal in proposals if proposal is not None}

    rows: dict[str, Row] = {}
    seen: set[float] = set()
    for session in range(3):
        study = open_study(tmp_path, sampler=sampler, trials=9)
        study.take_up(rows)
        new = [study.ask() for _ in range(3)]
        for proposal in new:
            assert proposal is not None
            rows[proposal.trial_id] = finished_row(proposal.config)
            study.tell(proposal.trial_id, rows[proposal.trial_id])
        assert floats(new).isdisjoint(seen), f"session {session}"
        seen |= floats(new)
    assert len(seen) == 9


def test_the_same_sweep_proposes_the_same_configurations_and_another_seed_others(tmp_path: Path) -> None:
    def configurations(name: str, seed: int) -> list[float]:
        (tmp_path / name).mkdir()
        return [p.config["lr"] for p in drive(open_study(tmp_path / name, sampler="tpe", trials=8, seed=seed), {})]

    assert configurations("a", 0) == configurations("b", 0)
    assert configurations("c", 1) != configurations("d", 0)


def test_a_journal_with_a_torn_last_line_opens_and_loses_only_that_line(tmp_path: Path) -> None:
    rows: dict[str, Row] = {}
    study = open_study(tmp_path, trials=2)
    first = study.ask()
    assert first is not None
    with (tmp_path / "optuna.log").open("a") as file:
        file.write('{"op_code":4,"worker_id":"x","trial_')
    proposed = drive(open_study(tmp_path, trials=2), rows)
    assert proposed[0] == first
    assert states(tmp_path) == {"COMPLETE": 2}


def test_a_lock_left_by_a_killed_driver_does_not_hold_the_next_one_up(tmp_path: Path) -> None:
    study = open_study(tmp_path, trials=2)
    study.ask()
    (tmp_path / "optuna.log.lock").symlink_to(tmp_path / "optuna.log")
    begin = time.monotonic()
    assert len(drive(open_study(tmp_path, trials=2), {})) == 2
    assert time.monotonic() - begin < 5


def csv_row(config: Mapping[str, Any]) -> Row:
    """A row with the settings of its trial, as trials.csv has them."""
    return {name: repr(value) if isinstance(value, float) else str(value) for name, value in config.items()} | dict(
        finished_row(config)
    )


@pytest.mark.parametrize("sampler", ["grid", "random", "tpe", "nsga2"])
@pytest.mark.parametrize("seeds", [(0,), (0, 1)], ids=["one seed", "two seeds"])
def test_a_lost_log_is_made_anew_from_the_table_and_no_trial_is_run_twice(
    tmp_path: Path, sampler: str, seeds: tuple[int, ...]
) -> None:
    space = GRID if sampler == "grid" else SPACE
    shape: dict[str, Any] = {"space": space, "sampler": sampler, "trials": 6 * len(seeds), "seeds": seeds}
    rows: dict[str, Row] = {}
    whole = drive(open_study(tmp_path, **shape), rows, row_of=csv_row)
    (tmp_path / "optuna.log").unlink()
    missing = "00002"
    del rows[missing]

    proposed = drive(open_study(tmp_path, **shape), rows, row_of=csv_row)

    assert [proposal.trial_id for proposal in proposed] == [missing]
    if sampler == "grid" or len(seeds) > 1:  # else nobody knows any more what it was
        assert proposed == [proposal for proposal in whole if proposal.trial_id == missing]
    assert {trial.number: trial.params for trial in plain_trials(tmp_path) if trial.number != int(missing)} == {
        int(proposal.trial_id): space.params_of(proposal.config) for proposal in whole if proposal.trial_id != missing
    }
    assert all(trial.state == TrialState.COMPLETE for trial in plain_trials(tmp_path))


@pytest.mark.parametrize(
    "damage",
    [
        lambda lines: [*lines[:9], lines[9][:10] + b"\n", *lines[10:]],
        lambda lines: [*lines[:9], bytes(len(lines[9])) + b"\n", *lines[10:]],
        lambda lines: [b'{"op_code": 77}\n'],
    ],
    ids=["a line cut", "a line zeroed", "another program's"],
)
def test_a_damaged_log_is_kept_aside_and_made_anew_from_the_table(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: Callable[[list[bytes]], list[bytes]]
) -> None:
    rows: dict[str, Row] = {}
    shape: dict[str, Any] = {"sampler": "tpe", "trials": 6}
    whole = drive(open_study(tmp_path, **shape), rows, row_of=csv_row)
    log = tmp_path / "optuna.log"
    damaged = b"".join(damage(log.read_bytes().splitlines(keepends=True)))
    log.write_bytes(damaged)

    assert drive(open_study(tmp_path, **(shape | {"trials": 7})), rows, row_of=csv_row)[0].trial_id == "00006"

    assert [trial.params for trial in plain_trials(tmp_path)[:6]] == [SPACE.params_of(item.config) for item in whole]
    assert (tmp_path / "optuna.log.damaged").read_bytes() == damaged
    assert "optuna.log is damaged" in caplog.text
