"""``pick`` by any column: limits, the best, and what is reported of columns that do not exist."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from sweeper.api import pick as from_python
from tests.sweeper.cli.conftest import json_of, names, refused


def rows(golden: Path) -> list[dict[str, str]]:
    with (golden / "trials.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["status"] == "finished"]


@pytest.mark.parametrize(
    ("flag", "column", "best"),
    [("maximize", "wall_seconds", max), ("minimize", "c", min)],
    ids=["maximize", "minimize"],
)
def test_the_largest_or_the_smallest_of_a_column_is_taken(golden: Path, flag: str, column: str, best: type) -> None:
    values = {row["trial_id"]: float(row[column]) for row in rows(golden) if row[column]}
    found = json_of("pick", golden, f"--{flag}", column)
    assert values[found["trial_id"]] == best(values.values())
    assert (found["rule"], found["eligible"]) == (f"{flag} {column}", len(values))


def test_limits_repeat_and_python_has_the_same_answer(golden: Path) -> None:
    limits = ["verbmem<=0.9", "lr<1e-3"]
    found = json_of("pick", golden, *(word for limit in limits for word in ("--where", limit)), "--maximize", "utility")
    qualify = [row for row in rows(golden) if float(row["verbmem"]) <= 0.9 and float(row["lr"]) < 1e-3]
    assert found["eligible"] == len(qualify) > 1
    assert found["metrics"]["utility"] == max(float(row["utility"]) for row in qualify)
    assert from_python(golden, where=limits, maximize="utility") == found


def test_a_limit_may_be_a_share_of_the_targets_value(golden: Path) -> None:
    baseline = json.loads((golden / "sweep.json").read_text())["baseline"]["utility"]
    found = json_of("pick", golden, "--where", "utility>=80%", "--minimize", "verbmem")
    assert found["metrics"]["utility"] >= 0.8 * baseline
    assert names(refused("pick", golden, "--where", "wall_seconds<=50%")[0], ["--where wall_seconds<=50%"])


def test_unknown_columns_are_reported_with_those_that_have_numbers(golden: Path) -> None:
    unknown, no_number, known = refused("pick", golden, "--where", "verbmen<=0.1", "--maximize", "method")
    assert names(unknown, ["--where verbmen<=0.1", "'verbmem'"])
    assert names(no_number, ["--maximize method"])
    assert names(known, ["lr", "verbmem", "wall_seconds"])
    assert "method" not in known


def test_contradictions_are_reported_together(golden: Path) -> None:
    problems = refused(
        *("pick", golden, "--rule", "knee", "--maximize", "utility", "--minimize", "verbmem"),
        *("--where", "verbmem=0.1", "--merge", "--export", golden),
    )
    expected = (
        ["--where", "verbmem=0.1", "utility>=0.7"],
        ["--rule knee", "--maximize"],
        ["--maximize utility", "--minimize verbmem", "--where"],
        [f"--export {golden}"],
    )
    assert all(names(*pair) for pair in zip(problems, expected, strict=True))
    assert names(refused("pick", golden, "--merge")[0], ["--merge", "--export DIR"])
    assert names(refused("pick", golden, "--where", "lr<1e-9")[0], ["lr", "1e-09", "3e-5"])


def test_the_neighbours_on_the_frontier_are_in_the_json(golden: Path) -> None:
    found = json_of("pick", golden, "--rule", "knee")["neighbours"]
    assert [item["side"] for item in found] == ["better forget_loss", "worse forget_loss"]
    for item, loss in zip(found, ("retain_loss", "forget_loss_capped"), strict=True):
        assert set(item["worse"][loss]) == {"value", "instead_of"}
        assert item["words"]
