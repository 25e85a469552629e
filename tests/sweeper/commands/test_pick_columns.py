"""``pick`` by any column: limits, the best, and what is said of columns that are not there."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from sweeper.api import pick as from_python
from tests.sweeper.commands.conftest import invoke, refused


def picked(golden: Path, *arguments: str) -> dict[str, Any]:
    result = invoke("pick", golden, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def rows(golden: Path) -> list[dict[str, str]]:
    with (golden / "trials.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["status"] == "finished"]


@pytest.mark.parametrize("column", ["utility", "wall_seconds", "c"])
def test_the_largest_and_the_smallest_of_a_column_are_taken(golden: Path, column: str) -> None:
    values = {row["trial_id"]: float(row[column]) for row in rows(golden) if row[column]}
    for flag, best in (("maximize", max), ("minimize", min)):
        found = picked(golden, f"--{flag}", column)
        assert values[found["trial_id"]] == best(values.values())
        assert (found["rule"], found["eligible"]) == (f"{flag} {column}", len(values))


def test_where_repeats_and_takes_what_trials_were_asked_to_do(golden: Path) -> None:
    limits = ("--where", "verbmem<=0.9", "--where", "lr<1e-3")
    found = picked(golden, *limits, "--maximize", "utility")
    qualify = [row for row in rows(golden) if float(row["verbmem"]) <= 0.9 and float(row["lr"]) < 1e-3]
    assert found["eligible"] == len(qualify) > 1
    assert found["metrics"]["utility"] == max(float(row["utility"]) for row in qualify)
    assert picked(golden, *limits)["rule"] == "constraint"
    python = from_python(golden, where=["verbmem<=0.9", "lr<1e-3"], maximize="utility")
    assert python == found


def test_a_limit_may_be_a_share_of_no_unlearn(golden: Path) -> None:
    baseline = json.loads((golden / "sweep.json").read_text())["baseline"]["utility"]
    assert picked(golden, "--where", "utility>=80%", "--minimize", "verbmem")["metrics"]["utility"] >= 0.8 * baseline
    assert refused("pick", golden, "--where", "wall_seconds<=50%") == [
        "--where wall_seconds<=50%: the sweep's No-unlearn model has no wall_seconds, so there is no share of it"
    ]


def test_columns_that_are_not_there_are_told_with_those_that_are(golden: Path) -> None:
    problems = refused("pick", golden, "--where", "verbmen<=0.1", "--maximize", "method")
    assert problems[:2] == [
        "--where verbmen<=0.1: there is no column verbmen; did you mean 'verbmem'?",
        "--maximize method: there is no number in the column method",
    ]
    assert problems[2].startswith("the columns with numbers are ")
    assert {"lr,", "verbmem,", "wall_seconds,"} <= set(problems[2].split())
    assert "method" not in problems[2]


def test_everything_that_contradicts_itself_is_told_at_once(golden: Path) -> None:
    problems = refused(
        *("pick", golden, "--rule", "knee", "--maximize", "utility", "--minimize", "verbmem"),
        *("--where", "verbmem=0.1", "--merge", "--export", golden),
    )
    assert problems == [
        "--where 'verbmem=0.1': expected a column, >=, <=, > or <, and a number or a share of the No-unlearn model's "
        "value, such as utility>=0.7 or utility>=70%",
        "--rule knee and --maximize both say which one to take: give one of them",
        "one column can be the best, got --maximize utility, --minimize verbmem: put limits on the others with --where",
        f"--export {golden}: this exists already; name a new folder",
    ]
    assert refused("pick", golden, "--merge") == ["--merge goes with --export DIR: the merged model is written there"]


def test_what_comes_nearest_is_said_where_nothing_is_within(golden: Path) -> None:
    told = refused("pick", golden, "--where", "lr<1e-9")[0]
    assert told.startswith("no finished trial has lr below 1e-09; the lowest of all is 3e-5")


def test_the_neighbours_are_told_in_words_and_for_machines(golden: Path) -> None:
    found = picked(golden, "--rule", "knee")
    assert [item["side"] for item in found["neighbours"]] == ["better forget_loss", "worse forget_loss"]
    for item in found["neighbours"]:
        change = item["worse"]["retain_loss" if item["side"].startswith("better") else "forget_loss_capped"]
        assert set(change) == {"value", "instead_of"}
        assert item["words"] in invoke("pick", golden, "--rule", "knee").stdout
