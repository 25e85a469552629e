"""What was asked for is what runs, and what was not has the documented default."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sweeper.folder import read_settings
from tests.sweeper.commands.conftest import invoke
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems


def values(specs: Sequence[TrialSpec], name: str) -> set[object]:
    return {spec.option_values.get(name) if name in ("c", "beta") else getattr(spec, name) for spec in specs}


def test_the_default_sweep_searches_gdiff_and_ngdiff(accepted: Callable[..., list[TrialSpec]], out: Path) -> None:
    specs = accepted()
    assert values(specs, "method") == {"gdiff", "ngdiff"}
    assert len(values(specs, "lr")) == len(specs)
    assert all(1e-5 <= spec.lr <= 1e-3 for spec in specs)
    assert values(specs, "auto_lr") == {"off"}
    settings = read_settings(out)
    assert (settings.trials, settings.sampler, settings.candidates) == (32, "tpe", "all")
    assert (settings.scheduler, settings.grace, settings.reduction, settings.stopping) == ("moasha", 1, 2, "stop")
    assert all(not trial_problems(spec) for spec in specs)


@pytest.mark.parametrize(
    ("given", "trials"),
    [
        (("--scheduler", "none"), 16),
        (("--sampler", "grid", "--lr", "1e-4", "--lr", "1e-3", "--c", "0.5"), 4),
        (("--seeds", "2"), 16),
        (("--candidates", "last"), 16),
        (("--epochs", "1"), 16),
        (("--objectives", "verbmem:min,utility:max"), 16),
    ],
)
def test_a_sweep_of_whole_trials_has_no_scheduler_by_default(
    accepted: Callable[..., list[TrialSpec]], out: Path, given: tuple[str, ...], trials: int
) -> None:
    accepted(*given)
    settings = read_settings(out)
    assert (settings.scheduler, settings.trials) == ("none", trials)


def test_objectives_measured_every_epoch_are_compared_early(
    accepted: Callable[..., list[TrialSpec]], out: Path
) -> None:
    accepted("--objectives", "verbmem:min,utility:max", "--metrics-every", "1")
    assert read_settings(out).scheduler == "moasha"


@pytest.mark.parametrize("method", ["ngdiff", "gd", "npo", "npo+ngdiff", "pcgrad", "imtl-g"])
def test_a_single_method_is_the_one_that_runs(accepted: Callable[..., list[TrialSpec]], method: str) -> None:
    assert values(accepted("--method", method), "method") == {method}


def test_a_single_learning_rate_is_the_one_that_is_used(accepted: Callable[..., list[TrialSpec]]) -> None:
    assert values(accepted("--lr", "3e-3"), "lr") == {3e-3}


def test_several_methods_rates_and_coefficients_are_all_searched(accepted: Callable[..., list[TrialSpec]]) -> None:
    specs = accepted(
        *("--method", "gdiff", "--method", "npo", "--method", "gd"),
        *("--lr", "1e-4", "--lr", "1e-3", "--c", "0.25", "--c", "0.75", "--option", "beta=0.5"),
    )
    assert values(specs, "method") == {"gdiff", "npo", "gd"}
    assert values(specs, "lr") == {1e-4, 1e-3}
    assert values(specs, "c") == {0.25, 0.75, None}
    assert values(specs, "beta") == {0.5, None}


@pytest.mark.parametrize(("given", "searched"), [("off", {"off"}), ("on", {"on"}), ("both", {"on", "off"})])
def test_auto_lr_is_off_on_or_searched(
    accepted: Callable[..., list[TrialSpec]], given: str, searched: set[object]
) -> None:
    assert values(accepted("--auto-lr", given), "auto_lr") == searched


def test_options_of_a_run_are_those_of_every_trial(accepted: Callable[..., list[TrialSpec]]) -> None:
    specs = accepted(
        *("--epochs", "3", "--max-steps", "7", "--batch-size", "5", "--optimizer", "sgd", "--momentum", "0.5"),
        *("--max-grad-norm", "1", "--weight-scale", "unit", "--lora-rank", "2", "--dtype", "bf16"),
        *("--retain-objective", "kl"),
        *("--gradient-checkpointing", "--limit", "20", "--seed", "9", "--auto-lr", "both", "--auto-lr-every", "3"),
    )
    for name, value in {
        "epochs": 3,
        "max_steps": 7,
        "batch_size": 5,
        "optimizer": "sgd",
        "momentum": 0.5,
        "max_grad_norm": 1.0,
        "weight_scale": "unit",
        "retain_objective": "kl",
        "lora_rank": 2,
        "dtype": "bf16",
        "gradient_checkpointing": True,
        "limit": 20,
        "seed": 9,
        "auto_lr_every": 3,
    }.items():
        assert values(specs, name) == {value}, name


@pytest.mark.parametrize(("address", "gpus", "shared"), [(None, 0, False), (None, 2, True), ("auto", 0, True)])
def test_auto_is_kept_and_is_a_whole_gpu_at_first_where_there_may_be_one(
    accepted: Callable[..., list[TrialSpec]],
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
    address: str | None,
    gpus: int,
    shared: bool,
) -> None:
    for module in ("placement", "settings", "commands.from_options"):
        monkeypatch.setattr(f"sweeper.{module}.gpus_here", lambda: gpus)
    accepted("--trials", "2", "--gpus-per-trial", "auto", *(("--address", address) if address else ()))
    assert json.loads((out / "sweep.json").read_text())["settings"]["gpus_per_trial"] == "auto"
    settings = read_settings(out)
    assert (settings.resources.gpus, settings.shares_gpus) == (float(shared), shared)


def test_options_of_a_sweep_are_in_its_settings(
    accepted: Callable[..., list[TrialSpec]], out: Path, tmp_path: Path
) -> None:
    accepted(
        *("--trials", "5", "--sampler", "nsga2", "--seeds", "2", "--seed", "3", "--max-concurrent", "4"),
        *("--cpus-per-trial", "2", "--gpus-per-trial", "0", "--time-budget", "60", "--experiment", "e"),
        *("--objectives", "verbmem:min,utility:max", "--storage", "state", "--address", "auto"),
    )
    settings = read_settings(out)
    assert (settings.trials, settings.sampler, settings.all_seeds) == (5, "nsga2", (3, 4))
    assert (settings.cpus_per_trial, settings.gpus_per_trial, settings.max_concurrent) == (2.0, 0.0, 4)
    assert (settings.time_budget_seconds, settings.experiment, settings.address) == (60.0, "e", "auto")
    assert [item.name for item in settings.parsed_objectives] == ["verbmem", "utility"]
    assert settings.storage == str(tmp_path / "cwd" / "state")
    assert settings.command.startswith("python -m sweeper")


def test_the_papers_grid_is_its_learning_rates_and_coefficients(
    accepted: Callable[..., list[TrialSpec]], out: Path
) -> None:
    specs = accepted("--space", "paper", "--sampler", "grid", "--method", "gdiff")
    assert read_settings(out).trials == 9
    assert values(specs, "lr") <= {1e-5, 5e-5, 1e-4}
    assert values(specs, "c") <= {0.9, 0.5, 0.1}
    assert values(specs, "epochs") == {15}


def test_what_is_given_wins_over_the_papers_own_settings(accepted: Callable[..., list[TrialSpec]]) -> None:
    specs = accepted("--space", "paper", "--method", "ngdiff", "--epochs", "3", "--optimizer", "sgd", "--lr", "0.5")
    assert (values(specs, "epochs"), values(specs, "optimizer"), values(specs, "lr")) == ({3}, {"sgd"}, {0.5})
    assert values(specs, "method") == {"ngdiff"}


def test_a_grid_has_as_many_trials_as_points_times_seeds(accepted: Callable[..., list[TrialSpec]], out: Path) -> None:
    accepted("--sampler", "grid", "--lr", "1e-4", "--lr", "1e-3", "--c", "0.5", "--c", "0.9", "--seeds", "2")
    assert read_settings(out).trials == (2 * 2 + 2) * 2


@pytest.mark.parametrize(
    ("arguments", "sampler", "trials"),
    [
        (["--method", "ngdiff", "--lr", "1e-4"], "grid", 1),
        (["--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-3", "--auto-lr", "both", "--seeds", "2"], "grid", 8),
        (["--method", "ngdiff", "--lr", "1e-4", "--trials", "3"], "tpe", 3),
        (["--method", "ngdiff", "--lr", "1e-4", "--sampler", "random"], "random", 32),
        (["--method", "ngdiff", *(word for rate in range(1, 18) for word in ("--lr", f"{rate}e-5"))], "tpe", 32),
        (["--method", "ngdiff"], "tpe", 32),
    ],
)
def test_a_space_of_a_few_points_is_visited_whole_where_nobody_says_how_often(
    accepted: Callable[..., list[TrialSpec]], out: Path, arguments: list[str], sampler: str, trials: int
) -> None:
    accepted(*arguments)
    settings = read_settings(out)
    assert (settings.sampler, settings.trials) == (sampler, trials)


def test_a_space_file_is_the_space(accepted: Callable[..., list[TrialSpec]], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(
        "method: [gdiff, npo]\nlr: {low: 1e-4, high: 2e-4}\nc: {values: [0.3], when: {method: gdiff}}\n"
        "auto_lr: [on]\nepochs: [2, 4]\n"
    )
    specs = accepted("--space", tmp_path / "space.yaml", "--auto-lr-every", "3")
    assert values(specs, "auto_lr_every") == {3}
    assert values(specs, "method") == {"gdiff", "npo"}
    assert values(specs, "c") == {0.3, None}
    assert values(specs, "auto_lr") == {"on"}
    assert values(specs, "epochs") == {2, 4}
    assert all(1e-4 <= spec.lr <= 2e-4 for spec in specs)


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [(["--lr", "3e-3"], "lr", 3e-3), (["--auto-lr", "on"], "auto_lr", "on")],
    ids=["lr", "auto_lr"],
)
def test_what_a_space_file_leaves_open_is_taken_from_the_command_line(
    accepted: Callable[..., list[TrialSpec]], tmp_path: Path, arguments: list[str], name: str, value: object
) -> None:
    (tmp_path / "space.yaml").write_text("method: [gdiff]\nc: [0.1, 0.9]\n")
    assert values(accepted("--space", tmp_path / "space.yaml", *arguments), name) == {value}


def test_paths_are_kept_absolute_so_that_a_sweep_can_be_resumed_from_anywhere(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    relative = os.path.relpath(data)
    tofu = ("--dataset", "tofu", "--data-dir", relative, "--forget-split", "forget01")
    assert invoke("pareto", *tofu, "--out", out, "--tracking-uri", "sqlite:///here.db").exit_code == 0
    settings = read_settings(out)
    assert settings.base.data_dir == str(data)
    assert settings.tracking_uri == f"sqlite:///{Path.cwd()}/here.db"


def test_tracking_goes_where_mlflows_own_variable_says(
    data: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: None)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/other.db")
    result = invoke("pareto", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01", "--out", out)
    assert result.exit_code == 0, result.output
    assert read_settings(out).tracking_uri == f"sqlite:///{tmp_path}/other.db"


def test_without_out_the_folder_is_a_new_one_under_runs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []
    monkeypatch.setattr("sweeper.commands.pareto.run_to_the_end", lambda out, as_json, change=None: folders.append(out))
    for _ in range(2):  # within the same second, perhaps
        tofu = ("--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")
        result = invoke("pareto", *tofu, "--method", "npo+ngdiff", "--tracking-uri", "sqlite:///m.db")
        assert result.exit_code == 0, result.output
    assert len(set(folders)) == 2
    for folder in folders:
        assert folder.parent == Path("runs")
        assert read_settings(folder).name == "pareto-npo_ngdiff-tiny-phi-tofu"


@pytest.mark.parametrize(
    ("further", "trials"),
    [
        (["--scheduler", "none"], 4),  # 40 epochs at 10 a trial
        (["--trials", "7"], 7),
        # Of 16 trials all take 1 epoch, 8 another, 4 further 2, 2 further 4, 1 the last 2: 42 epochs, 2.625 each.
        ([], 16),
        # Of 9 trials all take 1 epoch, 3 further 2, 1 further 6, a third of one the last: 21 1/3 epochs, 2.37 each.
        (["--reduction", "3"], 17),
    ],
    ids=["whole trials", "as asked", "stopped early", "stopped earlier"],
)
def test_an_epoch_budget_says_how_many_trials_there_are(
    accepted: Callable[..., list[TrialSpec]], out: Path, further: list[str], trials: int
) -> None:
    accepted("--epochs", "10", "--epoch-budget", "40", *further)
    assert read_settings(out).trials == trials
