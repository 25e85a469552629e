"""``list`` and ``evaluate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.sweeper.cli.conftest import invoke, json_of, names, problems_of, tofu
from trainables.metrics.registry import SETS
from trainables.scoring.base import Measurement


@pytest.mark.parametrize(
    ("kind", "name"),
    [("methods", "ngdiff"), ("models", "phi-1.5"), ("datasets", "tofu"), ("optimizers", "dog"), ("templates", "chat")],
)
def test_text_and_json_list_the_same_names(kind: str, name: str) -> None:
    named = [row["name"] for row in json_of("list", kind)]
    assert name in named
    assert [line for line in invoke("list", kind).stdout.splitlines() if not line.startswith(" ")] == named


def test_a_metric_is_listed_with_its_better_direction_or_its_ideal() -> None:
    rows = {row["name"]: row for row in json_of("list", "metrics")}
    assert rows["privleak"]["better"].startswith("0 ")
    assert all(rows[name]["better"].startswith("0.5 ") for name in rows if name in SETS["mia"])
    better = [rows[name]["better"] for name in ("privleak_distance", "verbmem", "utility")]
    assert better == ["lower", "lower", "higher"]
    assert rows["mia_loss_distance"]["formula"] == "|mia_loss - 0.5|"


def test_metrics_that_need_a_retain_model_are_left_out_of_a_set_and_refused_by_name(
    tiny_phi: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def evaluate(*arguments: object) -> Result:
        return invoke("evaluate", "--model-path", tiny_phi, *tofu(data)[2:], *arguments)

    scores = Measurement({"forget_loss": 1.0}, {}, 0.0)
    monkeypatch.setattr("trainables.target.prepare.score_checkpoint", lambda spec, **named: scores)
    result = evaluate("--metrics", "tofu", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, {"forget_loss": 1.0})
    (line,) = result.stderr.splitlines()
    assert names(line, ["forget_quality", "--retain-model DIR", "target --retain-only --out DIR"])
    for enough in (("--metrics", "tofu", "--retain-model", tiny_phi), ("--metrics", "default")):
        assert evaluate(*enough).stderr == ""
    assert names(problems_of(evaluate("--metrics", "tofu,forget_quality"))[0], ["forget_quality", "--retain-model DIR"])
