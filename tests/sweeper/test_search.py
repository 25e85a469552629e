"""The study proposes every trial exactly once and knows the truth about each.

A driver is played here: it asks, writes the row to a dictionary that stands for trials.csv, and tells. What Optuna
then believes is read back from optuna.log by plain Optuna.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from search_spaces.builtin import default_space
from search_spaces.constraint import parse_constraint
from search_spaces.parameters import Number
from search_spaces.space import Space
from sweeper.attained import Result
from sweeper.journal import open_journal
from sweeper.samplers import LEARNING, SAMPLERS
from sweeper.search import STUDY_NAME, Prior, SweepStudy, format_id
from sweeper.trade_off import DEFAULT_OBJECTIVES, axes, parse_objectives
from tests.sweeper.conftest import (
    FINE,
    GRID,
    SPACE,
    Row,
    drive,
    finished_row,
    open_study,
    plain_trials,
    runs_by_configuration,
    states,
)
from trainables.methods import options_by_method

pytestmark = pytest.mark.usefixtures("no_fsync")
TWO = Space(
    (Number("lr", 1e-5, 1e-3, log=True), Number("weight_decay", 0.0, 0.1)), {"method": "ngdiff", "auto_lr": "off"}
)
"""With a single parameter Optuna's genetic samplers mutate it in every child, which is random search."""
LR_EXPONENTS = [-5 + 2 * index / 15 for index in range(16)]
POINTS = [("gdiff", 0.1), ("gdiff", 0.9), ("ngdiff", None)]


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
