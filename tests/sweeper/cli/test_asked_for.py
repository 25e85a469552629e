"""Options reach the settings and the trials of a sweep; other settings have the documented defaults."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.folder import read_settings
from tests.sweeper.cli.conftest import Accepted, invoke, resolved, tofu
from trainables.models.registry import find_model
from trainables.spec import TrialSpec


def values(specs: Sequence[TrialSpec], name: str) -> set[object]:
    return {spec.option_values.get(name) if name in ("c", "beta") else getattr(spec, name) for spec in specs}


RATES = " ".join(f"--lr {rate}e-5" for rate in range(1, 18))


@pytest.mark.parametrize(
    ("typed", "scheduler", "sampler", "trials"),
    [
        ("", "moasha", "tpe", 32),
        # If trials cannot be compared before they end, the sweep has no scheduler, and fewer trials.
        ("--scheduler none", "none", "tpe", 16),
        ("--sampler grid --lr 1e-4 --lr 1e-3 --c 0.5", "none", "grid", 4),
        ("--seeds 2", "none", "tpe", 16),
        ("--candidates last", "none", "tpe", 16),
        ("--epochs 1", "none", "tpe", 16),
        ("--objectives verbmem:min,utility:max", "none", "tpe", 16),
        ("--objectives verbmem:min,utility:max --metrics-every 1", "moasha", "tpe", 32),
        # All points of a small space are tried, unless a number of trials or a sampler is given.
        ("--method ngdiff --lr 1e-4", "none", "grid", 1),
        ("--sampler grid --lr 1e-4 --lr 1e-3 --c 0.5 --c 0.9 --seeds 2", "none", "grid", (2 * 2 + 2) * 2),
        ("--method ngdiff --lr 1e-4 --trials 3", "moasha", "tpe", 3),
        ("--method ngdiff --lr 1e-4 --sampler random", "moasha", "random", 32),
        (f"--method ngdiff {RATES}", "moasha", "tpe", 32),
        # A budget of 40 epochs, with 10 epochs per trial.
        ("--epochs 10 --epoch-budget 40 --scheduler none", "none", "tpe", 4),
        ("--epochs 10 --epoch-budget 40 --trials 7", "moasha", "tpe", 7),
        # Of 16 trials all take 1 epoch, 8 another, 4 further 2, 2 further 4, 1 the last 2: 42 epochs, 2.625 each.
        ("--epochs 10 --epoch-budget 40", "moasha", "tpe", 16),
        # Of 9 trials all take 1 epoch, 3 further 2, 1 further 6, a third of one the last: 21 1/3 epochs, 2.37 each.
        ("--epochs 10 --epoch-budget 40 --reduction 3", "moasha", "tpe", 17),
    ],
)
def test_the_number_of_trials_follows_sampler_scheduler_and_budget(
    typed: str, scheduler: str, sampler: str, trials: int
) -> None:
    settings = sweep_settings(*typed.split())
    assert (settings.scheduler, settings.sampler, settings.trials) == (scheduler, sampler, trials)


@pytest.mark.parametrize(
    ("typed", "is_fluent_method_searched"),
    [
        ("", True),
        ("--model tiny-phi --c 0.5", True),
        ("--dataset digits", False),
        ("--space paper", False),
        ("--sampler grid --lr 1e-4 --c 0.5", False),
        ("--method ngdiff", False),
    ],
)
def test_only_the_default_problem_also_searches_a_method_with_fluent_answers(
    typed: str, is_fluent_method_searched: bool
) -> None:
    assert ("undial+ngdiff" in sweep_settings(*typed.split()).methods) is is_fluent_method_searched


SPACES = {
    "methods.yaml": "method: [gdiff, ngdiff]\n",
    "dogs.yaml": "method: [gdiff, ngdiff]\noptimizer: [dog, dowg]\nlr: [1]\nd_growth: [1.1, 1.3]\n",
    "updates.yaml": "method: [ngdiff]\nupdate: [plain, sam]\nsam_rho: {values: [0.05, 0.5], when: {update: sam}}\n",
    "space.yaml": "method: [gdiff, npo]\nc: {values: [0.3], when: {method: gdiff}}\nauto_lr: [on]\nepochs: [2, 4]\n"
    "interpolate: on\n",
}
OF_A_RUN = {"epochs": 3, "max_steps": 7, "batch_size": 5, "optimizer": "sgd", "momentum": 0.5, "seed": 9, "limit": 20}
OF_A_RUN |= {"weight_scale": "unit", "retain_objective": "kl", "lora_rank": 2, "dtype": "bf16", "max_grad_norm": 1.0}


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (
            "--method gdiff --method npo --method gd --lr 1e-4 --lr 1e-3 --c 0.25 --c 0.75 --option beta=0.5",
            {"method": {"gdiff", "npo", "gd"}, "lr": {1e-4, 1e-3}, "c": {0.25, 0.75, None}, "beta": {0.5, None}},
        ),
        (
            " ".join(f"--{name.replace('_', '-')} {value}" for name, value in OF_A_RUN.items()),
            {name: {value} for name, value in OF_A_RUN.items()},
        ),
        ("--auto-lr off --auto-lr gen --auto-lr-every 3", {"auto_lr_every": {3}, "auto_lr": {"gen", "off"}}),
        ("--auto-lr on --gradient-checkpointing", {"gradient_checkpointing": {True}, "auto_lr": {"gen"}}),
        (
            "--interpolate on --interpolate off --lr-decay linear --on-divergence restart",
            {"interpolate": {"on", "off"}, "lr_decay": {"linear"}, "on_divergence": {"restart"}, "auto_lr": {"off"}},
        ),
        (
            "--auto-lr off --auto-lr gen-trust --auto-lr-delta 0 --auto-lr-delta 0.1",
            {"auto_lr": {"off", "gen-trust"}, "auto_lr_delta": {0.0, 0.1, 0.005}},
        ),
        (
            "--update plain --update sam --update sign --sam-rho 0.1",
            {"update": {"plain", "sam", "sign"}, "sam_rho": {0.1}},
        ),
        ("--space updates.yaml", {"update": {"plain", "sam"}, "sam_rho": {0.05, 0.5, 0.01}}),
        # Given values replace those of the paper's space; a file has only its own fields.
        ("--space paper --method gdiff --epochs 3 --lr 0.5", {"c": {0.9, 0.5, 0.1}, "epochs": {3}, "lr": {0.5}}),
        (
            "--space space.yaml --lr 3e-3",
            {"c": {0.3, None}, "auto_lr": {"gen"}, "interpolate": {"on"}, "epochs": {2, 4}, "lr": {3e-3}},
        ),
        # The learning rate of a learning-rate-free optimizer is a multiplier, 1 unless given.
        ("--space paper --optimizer prodigy", {"optimizer": {"prodigy"}, "lr": {1.0}}),
        ("--space paper --optimizer prodigy --lr 0.25", {"optimizer": {"prodigy"}, "lr": {0.25}}),
        ("--space methods.yaml --optimizer adamw", {"optimizer": {"adamw"}, "lr": {find_model("tiny-phi").lr}}),
        ("--space dogs.yaml", {"optimizer": {"dog", "dowg"}, "lr": {1.0}, "d_growth": {1.1, 1.3}}),
    ],
)
def test_the_trials_have_the_values_of_the_options_and_of_the_space(
    accepted: Accepted, typed: str, expected: dict[str, set[object]]
) -> None:
    for name, text in SPACES.items():
        Path(name).write_text(text)
    specs = accepted(*typed.split())
    assert {name: values(specs, name) for name in expected} == expected


def test_a_sweep_searches_the_multiplier_around_1_with_the_given_cap(accepted: Accepted) -> None:
    found = accepted("--optimizer", "prodigy", "--growth-rate", "1.05")
    assert {(spec.optimizer, spec.d_growth) for spec in found} == {("prodigy", 1.05)}
    assert 0.1 <= min(spec.lr for spec in found) < 0.5 < 2.0 < max(spec.lr for spec in found) <= 10.0


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("--model mistral-7b", {"lora_rank": 8, "target_lora_rank": None}),
        ("--model mistral-7b --lora-rank 4", {"lora_rank": 4}),
        ("--model mistral-7b --lora-rank none", {"lora_rank": None}),
        ("--model mistral-7b --target-lora-rank none", {"lora_rank": 8, "target_lora_rank": 0}),
        # A model from the hub that is not registered is fine-tuned fully.
        ("--model EleutherAI/pythia-1.4b", {"dataset": "tofu", "lora_rank": None, "batch_size": 32}),
        ("--model tiny-phi", {"dataset": "authors", "max_length": 512}),
        ("--model tiny-resnet", {"dataset": "digits"}),
        ("--model tiny-phi --dataset muse-books", {"max_length": 2048}),
        ("--model tiny-phi --dataset muse-books --max-length 256", {"max_length": 256}),
    ],
)
def test_a_model_and_a_data_set_have_their_own_settings_unless_others_are_given(
    monkeypatch: pytest.MonkeyPatch, typed: str, expected: dict[str, object]
) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr("sweeper.checks.hub.hub_problems", lambda wanted: asked.extend(wanted) or [])
    spec = resolved("pareto", *typed.split()).base
    assert {name: getattr(spec, name) for name in expected} == expected
    assert dict(asked).get("model") == find_model(spec.model).hub_id, "the hub is asked for the model"


def sweep_settings(*words: object) -> SweepSettings:
    settings = resolved("pareto", *words).settings
    assert settings is not None
    return settings


@pytest.mark.parametrize("methods", [("gdiff",), ("ga", "gdiff", "npo", "ngdiff", "mgda")])
def test_the_papers_space_is_a_grid_of_last_epochs_for_any_number_of_methods(methods: tuple[str, ...]) -> None:
    words = [word for method in methods for word in ("--method", method)]
    settings = sweep_settings("--space", "paper", *words)
    assert (settings.sampler, settings.scheduler, settings.candidates) == ("grid", "none", "last")
    points = settings.space.grid()
    assert settings.trials == len(points) == 2 * 3 * (len(methods) + 2), "gdiff has three values of c"
    assert {(point["auto_lr"], point["lr"]) for point in points} == set(product(("off", "gen"), (1e-5, 5e-5, 1e-4)))
    assert sweep_settings("--space", "paper", *words, "--candidates", "all").candidates == "all"
    assert sweep_settings("--space", "paper", *words, "--trials", 2, "--seeds", 2).trials == 2


def test_options_of_a_sweep_are_in_its_settings() -> None:
    given = {"trials": 5, "sampler": "nsga2", "seeds": 2, "seed": 3, "max_concurrent": 4, "cpus_per_trial": 2.0}
    given |= {"experiment": "e", "address": "auto", "until": "plateau:3", "front_metrics": 1}
    flags = (word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value))
    settings = sweep_settings(*flags)
    assert {name: getattr(settings, name) for name in given} == given


def test_places_are_absolute_and_mlflows_own_variable_counts(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///theirs.db")
    settings = sweep_settings("--dataset", "tofu", "--data-dir", os.path.relpath(data), "--forget-split", "forget01")
    assert (settings.base.data_dir, settings.tracking_uri) == (str(data), f"sqlite:///{Path.cwd()}/theirs.db")


def test_without_out_every_sweep_has_a_new_folder_under_runs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []
    monkeypatch.setattr("sweeper.cli.sweeps.run_to_the_end", lambda out, as_json, changes=None: folders.append(out))
    for _ in range(2):  # within the same second, perhaps
        result = invoke("pareto", *tofu(data), "--method", "npo+ngdiff", "--tracking-uri", "sqlite:///m.db")
        assert result.exit_code == 0, result.output
    assert len(set(folders)) == 2
    for folder in folders:
        assert folder.parent == Path("runs")
        assert read_settings(folder).name == "pareto-npo_ngdiff-tiny-phi-tofu"
