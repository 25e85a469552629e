"""The study proposes every trial exactly once and reports each outcome to Optuna.

The tests act as the driver: they ask, store the row in a dictionary in place of trials.csv, and tell. Then plain Optuna
reads the states from optuna.log.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from search_spaces.builtin import default_space
from search_spaces.common.front import Point
from search_spaces.constraint import parse_constraint
from search_spaces.parameters import Number
from search_spaces.space import Space
from sweeper.search.samplers import SAMPLERS
from sweeper.search.schedulers import SCHEDULERS
from sweeper.search.warm_start import Prior
from sweeper.settings import names
from tests.sweeper.conftest import FINE, GRID, Row, drive, finished_row, open_study, plain_trials, states
from trainables.methods import options_by_method

pytestmark = pytest.mark.usefixtures("no_fsync")
TWO = Space(
    (Number("lr", 1e-5, 1e-3, log=True), Number("weight_decay", 0.0, 0.1)), {"method": "ngdiff", "auto_lr": "off"}
)
"""Two parameters, because Optuna's genetic samplers mutate a single parameter in every child: random search."""
POINTS = [("gdiff", 0.1), ("gdiff", 0.9), ("ngdiff", None)]
UTILITY = (parse_constraint("utility>=0.5"),)


def test_the_options_accept_exactly_the_names_in_the_registries() -> None:
    assert tuple(SAMPLERS) == names.SAMPLERS
    assert (names.NO_SCHEDULER, *SCHEDULERS) == names.SCHEDULERS


def exponent(config: Mapping[str, Any]) -> float:
    return math.log10(config["lr"])


@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "grid"])
def test_every_sampler_proposes_its_trials_and_those_that_learn_react_to_results(tmp_path: Path, sampler: str) -> None:
    """If the objectives are exchanged, a sampler that learns proposes other configurations."""

    def contrary(config: Mapping[str, Any]) -> Row:
        row = finished_row(config)
        return {**row, "forget_loss_capped": row["retain_loss"], "retain_loss": row["forget_loss_capped"]}

    trials = 6 if sampler == "gp" else 16  # a slow fit for each trial after the fourth
    one = drive(open_study(tmp_path / "a", sampler=sampler, trials=trials))
    other = drive(open_study(tmp_path / "b", sampler=sampler, trials=trials), row_of=contrary)
    assert drive(open_study(tmp_path / "c", sampler=sampler, trials=4, seed=1)) != one[:4] == other[:4]
    assert [trial_id for trial_id, _ in one] == [f"{number:05d}" for number in range(trials)]
    assert len({json.dumps(config, sort_keys=True) for _, config in one}) == trials
    # A child of NSGA-II may equal a parent, so it is not run; the other samplers draw every value again.
    assert states(tmp_path / "a")["COMPLETE"] == trials
    assert "FAIL" not in states(tmp_path / "a") or sampler in ("nsga2", "nsga3")
    assert (one[4:] != other[4:]) == (sampler in names.LEARNERS)


@pytest.mark.parametrize(
    ("space", "points", "rates"),
    [
        (GRID, [(*point, lr) for point in POINTS for lr in (1e-4, 1e-5)], (1e-2,)),
        (default_space(methods=options_by_method(("ngdiff",)), lr=(1e-4,)), [("ngdiff", None, 1e-4)], ()),
    ],
    ids=["a grid, later extended", "nothing to search"],
)
def test_a_grid_is_visited_exactly_once_per_point_and_seed(
    tmp_path: Path, space: Space, points: list[Any], rates: tuple[float, ...]
) -> None:
    """``rates`` are learning rates outside the space by which lr-study extends the finished grid."""
    grid: dict[str, Any] = {"space": space, "sampler": "grid", "seeds": (0, 1)}
    proposed = drive(open_study(tmp_path, trials=2 * len(points), **grid), tmp_path)
    extension = [{"method": "ngdiff", "auto_lr": "off", "lr": lr} for lr in rates]
    points = [*points, *(("ngdiff", None, lr) for lr in rates)]
    further = open_study(tmp_path, trials=2 * len(points), extension=extension, **grid)
    proposed += drive(further, tmp_path)
    visited = Counter((config["method"], config.get("c"), config["lr"], config["seed"]) for _, config in proposed)
    assert visited == Counter((*point, seed) for point in points for seed in (0, 1))
    assert len(drive(open_study(tmp_path / "short", space=space, sampler="grid", trials=1))) == 1


ENDS: dict[str, tuple[Row, str]] = {
    "finished": (FINE, "COMPLETE"),
    "finished, as text": ({**FINE, "forget_loss_capped": "2.0", "retain_loss": "0.5"}, "COMPLETE"),
    "finished with NaN": ({**FINE, "retain_loss": math.nan}, "FAIL"),
    "finished without an objective": ({"status": "finished", "retain_loss": 0.5}, "FAIL"),
    "diverged with finite losses": ({**FINE, "status": "diverged"}, "FAIL"),
    "failed": ({"status": "failed", "error": "out of memory"}, "FAIL"),
    "stopped": ({**FINE, "status": "stopped"}, "PRUNED"),
    "without a status": ({"forget_loss_capped": 2.0, "retain_loss": 0.5}, "FAIL"),
}


@pytest.mark.parametrize(("row", "state"), ENDS.values(), ids=ENDS)
def test_only_a_finished_trial_with_finite_objectives_is_complete_and_the_first_end_counts(
    tmp_path: Path, row: Row, state: str
) -> None:
    study = open_study(tmp_path, trials=1)
    drive(study, row_of=lambda config: row)
    for later in ({**FINE, "retain_loss": 0.1}, {"status": "failed"}):
        study.tell("00000", later)
    (trial,) = plain_trials(tmp_path)
    assert (trial.state.name, trial.values) == (state, [2.0, 0.5] if state == "COMPLETE" else None)


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_the_search_continues_after_trials_that_failed_or_were_stopped(tmp_path: Path, sampler: str) -> None:
    ends: list[Row] = [FINE, {"status": "failed"}, {**FINE, "status": "stopped"}, {**FINE, "status": "diverged"}]
    numbers = iter(range(100))
    trials = 8 if sampler == "gp" else 16
    study = open_study(tmp_path, sampler=sampler, trials=trials)
    assert len(drive(study, row_of=lambda config: ends[next(numbers) % len(ends)])) == trials
    assert states(tmp_path) == {"COMPLETE": trials // 4, "FAIL": trials // 2, "PRUNED": trials // 4}
    drive(open_study(tmp_path / "bad", sampler=sampler, trials=8), row_of=lambda config: {"status": "diverged"})
    assert states(tmp_path / "bad") == {"FAIL": 8}


def test_a_finished_trial_is_reported_with_its_best_epoch_and_each_prior_with_its_own_violations(
    tmp_path: Path,
) -> None:
    early = {"forget_loss_capped": 4.0, "retain_loss": 1.0}
    study = open_study(tmp_path, space=TWO, trials=2, constraints=UTILITY)
    config = {"method": "ngdiff", "auto_lr": "off", "lr": 1e-4, "weight_decay": 0.05}
    results = [Point((3.0, 1.0), (missed,)) for missed in (0.25, -0.125)]
    study.begin(priors=[Prior(config, result.values, result.violations, "earlier/00000") for result in results])
    for row in ({**FINE, "utility": 0.1}, {**FINE, "status": "stopped"}):
        proposal = study.ask()
        assert proposal is not None
        study.tell(proposal[0], row, [early | {"utility": 0.3}, FINE])
    *priors, finished, stopped = plain_trials(tmp_path)
    assert [trial.constraints for trial in priors] == [{"utility>=0.5": 0.25}, {"utility>=0.5": -0.125}]
    assert [(trial.values, trial.user_attrs["prior"]) for trial in priors] == [([3.0, 1.0], "earlier/00000")] * 2
    assert (finished.values, finished.constraints) == ([4.0, 1.0], {"utility>=0.5": pytest.approx(0.2)})
    assert (stopped.state.name, stopped.values) == ("PRUNED", None)


def test_the_gaussian_process_searches_where_the_constraints_are_met(tmp_path: Path) -> None:
    """The best losses are at a high lr, where the constraint is missed by far. Optuna gives others the constraints."""

    def row_of(config: Mapping[str, Any]) -> Row:
        rate = exponent(config)  # from -5 to -3
        return {"status": "finished", "forget_loss_capped": 5 + rate, "retain_loss": -rate, "utility": -rate - 4}

    def late(name: str, **given: Any) -> float:
        *_, one, other = drive(open_study(tmp_path / name, space=TWO, sampler="gp", trials=6, **given), row_of=row_of)
        return (exponent(one[1]) + exponent(other[1])) / 2

    assert late("constrained", constraints=UTILITY) < late("free") - 0.3
