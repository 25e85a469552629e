"""The learning-rate-free optimizers on the command line: their learning rate, their cap, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.commands.from_options import single_spec
from tests.sweeper.commands.conftest import invoke, specs_of
from trainables.models.registry import find_model
from trainables.optimizers import LR_FREE
from trainables.spec import TrialSpec

Pareto = Callable[..., Result]


@pytest.fixture
def pareto(out: Path, monkeypatch: pytest.MonkeyPatch) -> Pareto:
    """``pareto`` on the default data, up to where work would start."""
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)

    def command(*arguments: str | Path) -> Result:
        return invoke("pareto", "--out", out, *arguments)

    return command


@pytest.mark.parametrize("name", LR_FREE)
def test_a_sweep_searches_the_multiplier_around_1_with_the_cap_it_is_given(
    name: str, pareto: Pareto, out: Path
) -> None:
    result = pareto("--optimizer", name, "--growth-rate", "1.05")
    assert result.exit_code == 0, result.output
    specs = specs_of(out)
    assert {(spec.optimizer, spec.d_growth) for spec in specs} == {(name, 1.05)}
    assert all(0.1 <= spec.lr <= 10.0 for spec in specs)
    assert min(spec.lr for spec in specs) < 0.5 < 2.0 < max(spec.lr for spec in specs)


@pytest.mark.parametrize(("arguments", "lr"), [([], 1.0), (["--lr", "0.25"], 0.25)], ids=["default", "given"])
def test_the_papers_grid_has_the_published_multiplier_instead_of_adams_rates(
    arguments: list[str], lr: float, pareto: Pareto, out: Path
) -> None:
    result = pareto("--space", "paper", "--optimizer", "prodigy", *arguments)
    assert result.exit_code == 0, result.output
    assert {(spec.lr, spec.optimizer) for spec in specs_of(out)} == {(lr, "prodigy")}


@pytest.mark.parametrize("optimizer", ["prodigy", "adamw"])
def test_one_run_has_the_multiplier_1_or_the_models_rate(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TrialSpec] = []

    def record(given: dict[str, object]) -> TrialSpec:
        seen.append(single_spec(given))
        raise click.Abort

    monkeypatch.setattr("sweeper.commands.from_options.single_spec", record)
    CliRunner().invoke(main, ["unlearn", "--method", "ngdiff", "--optimizer", optimizer])
    assert (seen[0].lr == 1.0) is (optimizer == "prodigy")


@pytest.mark.parametrize("auto_lr", ["on", "both"])
@pytest.mark.parametrize("name", LR_FREE)
def test_auto_lr_is_refused(name: str, auto_lr: str, pareto: Pareto, out: Path) -> None:
    result = pareto("--optimizer", name, "--auto-lr", auto_lr)
    assert result.exit_code == 2
    assert f"AutoLR does not go with optimizer {name}" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["--optimizer", "dog", "--growth-rate", "0.9"],
            "(--growth-rate) must be a finite number, at least 1, got 0.9",
        ),
        (["--growth-rate", "1.5"], "(--growth-rate) applies to optimizer prodigy"),
    ],
    ids=["below 1", "adamw"],
)
def test_a_growth_cap_that_means_nothing_is_refused(arguments: list[str], said: str, pareto: Pareto) -> None:
    result = pareto(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr


REFUSED = {
    "one range": ("lr: {low: 1.0e-5, high: 1.0e-3, log: true}\n", "one learning rate cannot serve prodigy"),
    "no rate": ("", "one learning rate cannot serve prodigy"),
    "auto lr": ("lr: [1]\nauto_lr: [off, on]\n", "AutoLR does not go with optimizer prodigy"),
    "cap": ("lr: [1]\nd_growth: [1.1, 1.2]\n", "d_growth (--growth-rate) applies to optimizer prodigy"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_space_file_whose_optimizers_do_not_go_with_the_rest_is_refused(
    case: str, pareto: Pareto, out: Path, tmp_path: Path
) -> None:
    text, said = REFUSED[case]
    (tmp_path / "space.yaml").write_text("method: [ngdiff]\noptimizer: [adamw, prodigy]\n" + text)
    result = pareto("--space", tmp_path / "space.yaml")
    assert result.exit_code == 2
    assert said in result.stderr
    assert not out.exists()


def test_a_space_file_of_one_learning_rate_free_optimizer_runs_with_its_cap_and_rate(
    pareto: Pareto, out: Path, tmp_path: Path
) -> None:
    (tmp_path / "space.yaml").write_text("method: [ngdiff]\noptimizer: [dog, dowg]\nlr: [1]\nd_growth: [1.1, 1.3]\n")
    result = pareto("--space", tmp_path / "space.yaml")
    assert result.exit_code == 0, result.output
    seen = {(spec.optimizer, spec.lr, spec.d_growth) for spec in specs_of(out, 40)}
    assert seen == {(name, 1.0, growth) for name in ("dog", "dowg") for growth in (1.1, 1.3)}


def test_the_list_says_it_too() -> None:
    rows = json.loads(CliRunner().invoke(main, ["list", "optimizers", "--json"]).stdout)
    refused = {row["name"] for row in rows if row["AutoLR"] != "yes"}
    assert refused == set(LR_FREE)


def test_a_space_file_without_rates_has_the_multiplier_1(pareto: Pareto, out: Path, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text("method: [gdiff, ngdiff]\n")
    for optimizer, lr in (("prodigy", 1.0), ("adamw", find_model("tiny-phi").lr)):
        result = invoke(
            "pareto", "--out", out.with_name(optimizer), "--optimizer", optimizer, "--space", tmp_path / "space.yaml"
        )
        assert result.exit_code == 0, result.output
        assert {spec.lr for spec in specs_of(out.with_name(optimizer))} == {lr}
