"""The learning-rate-free optimizers on the command line: their multiplier, their cap, and what they exclude."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sweeper.cli.conftest import invoke, json_of, names, problems_of, resolved, specs_of
from trainables.models.registry import find_model
from trainables.optimizers import LR_FREE
from trainables.spec import TrialSpec

pytestmark = pytest.mark.usefixtures("planned_only")


def specs(out: Path, *arguments: object, trials: int = 20) -> list[TrialSpec]:
    """The first trials of a sweep on the default data."""
    result = invoke("pareto", "--out", out, *arguments)
    assert result.exit_code == 0, result.output
    return specs_of(out, trials)


@pytest.fixture
def space(tmp_path: Path) -> Path:
    return tmp_path / "space.yaml"


@pytest.mark.parametrize("name", LR_FREE)
def test_a_sweep_searches_the_multiplier_around_1_with_the_given_cap(name: str, out: Path) -> None:
    found = specs(out, "--optimizer", name, "--growth-rate", "1.05")
    assert {(spec.optimizer, spec.d_growth) for spec in found} == {(name, 1.05)}
    assert 0.1 <= min(spec.lr for spec in found) < 0.5 < 2.0 < max(spec.lr for spec in found) <= 10.0


@pytest.mark.parametrize(("arguments", "lr"), [([], 1.0), (["--lr", "0.25"], 0.25)], ids=["default", "given"])
def test_the_papers_grid_has_the_multiplier_instead_of_rates(arguments: list[str], lr: float, out: Path) -> None:
    found = specs(out, "--space", "paper", "--optimizer", "prodigy", *arguments)
    assert {(spec.lr, spec.optimizer) for spec in found} == {(lr, "prodigy")}


@pytest.mark.parametrize("optimizer", ["prodigy", "adamw"])
def test_without_a_rate_it_is_the_multiplier_1_or_the_models_rate(optimizer: str, out: Path, space: Path) -> None:
    lr = 1.0 if optimizer == "prodigy" else find_model("tiny-phi").lr
    space.write_text("method: [gdiff, ngdiff]\n")
    assert {spec.lr for spec in specs(out, "--optimizer", optimizer, "--space", space)} == {lr}

    spec = resolved("unlearn", "--method", "ngdiff", "--optimizer", optimizer).spec
    assert spec is not None
    assert spec.lr == lr


def test_auto_lr_is_excluded_by_every_one_of_them(out: Path) -> None:
    assert {row["name"] for row in json_of("list", "optimizers") if row["AutoLR"] != "yes"} == set(LR_FREE)
    for name in LR_FREE:
        (problem,) = problems_of(invoke("pareto", "--out", out, "--optimizer", name, "--auto-lr", "on"))
        assert names(problem, ["AutoLR", name])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("lr: {low: 1.0e-5, high: 1.0e-3, log: true}\n", ["learning rate"]),
        ("", ["learning rate"]),
        ("lr: [1]\nauto_lr: [off, on]\n", ["AutoLR"]),
        ("lr: [1]\nd_growth: [1.1, 1.2]\n", ["d_growth", "--growth-rate"]),
    ],
    ids=["a range of rates", "no rate", "auto lr", "cap"],
)
def test_a_space_file_whose_optimizers_exclude_the_rest_is_refused(
    text: str, named: list[str], out: Path, space: Path
) -> None:
    space.write_text("method: [ngdiff]\noptimizer: [adamw, prodigy]\n" + text)
    problems = problems_of(invoke("pareto", "--out", out, "--space", space))
    assert names("\n".join(problems), [*named, "prodigy"])
    assert not out.exists()


def test_a_space_file_varies_optimizer_rate_and_cap(out: Path, space: Path) -> None:
    space.write_text("method: [ngdiff]\noptimizer: [dog, dowg]\nlr: [1]\nd_growth: [1.1, 1.3]\n")
    seen = {(spec.optimizer, spec.lr, spec.d_growth) for spec in specs(out, "--space", space, trials=40)}
    assert seen == {(name, 1.0, growth) for name in ("dog", "dowg") for growth in (1.1, 1.3)}
