"""Optuna's samplers on a conditional space: whatever they propose lies in it, and can be replayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import optuna
import pytest

from tests.search_spaces.conftest import CONDITIONAL

SAMPLERS: dict[str, Callable[[], optuna.samplers.BaseSampler]] = {
    "tpe": lambda: optuna.samplers.TPESampler(
        multivariate=True, group=True, constant_liar=True, n_startup_trials=10, seed=0
    ),
    "nsga2": lambda: optuna.samplers.NSGAIISampler(population_size=10, seed=0),
    "random": lambda: optuna.samplers.RandomSampler(seed=0),
}


def names_that_apply(config: Mapping[str, object]) -> set[str]:
    """What a configuration of the space above must hold, written out by hand."""
    names = {"epochs", "method", "auto_lr", "lr"}
    names |= {"gdiff": {"c"}, "npo": {"beta"}, "simnpo": {"beta"}, "ngdiff": set()}[str(config["method"])]
    if config["auto_lr"] == "off":
        names |= {"lora_rank"}
    elif config["method"] in ("gdiff", "ngdiff"):
        names |= {"auto_lr_every"}
    return names


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_every_proposal_lies_in_the_space_and_holds_only_what_applies(name: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=SAMPLERS[name]())
    methods = set()
    for _ in range(60):
        trial = study.ask()
        config = CONDITIONAL.suggest(trial)
        assert set(config) == names_that_apply(config)
        # c has 12 decimals, 1 - c in Optuna's record has all.
        assert CONDITIONAL.params_of(config) == pytest.approx(trial.params, abs=1e-12)
        assert CONDITIONAL.suggest(optuna.trial.FixedTrial(CONDITIONAL.params_of(config))) == config
        methods.add(config["method"])
        lr = float(str(config["lr"]))
        study.tell(trial, [float(str(config.get("c", 0.5))) * lr, float(str(config.get("beta", 1.0))) - lr])
    assert methods == {"gdiff", "npo", "simnpo", "ngdiff"}


def test_an_enqueued_configuration_comes_back_unchanged_also_through_a_journal_on_disk(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "optuna.log"))
    study = optuna.create_study(storage=optuna.storages.JournalStorage(backend))
    configs: list[dict[str, object]] = [
        {"epochs": 15, "method": "gdiff", "auto_lr": "off", "lr": 1e-5, "c": 0.1, "lora_rank": None},
        {"epochs": 15, "method": "simnpo", "auto_lr": "on", "lr": 1e-3, "beta": 4.5},
        {"epochs": 15, "method": "ngdiff", "auto_lr": "on", "lr": 3e-4, "auto_lr_every": 20},
        {"epochs": 15, "method": "npo", "auto_lr": "off", "lr": 3e-4, "beta": 0.1, "lora_rank": 8},
    ]
    for config in configs:
        study.enqueue_trial(CONDITIONAL.params_of(config))
    assert [CONDITIONAL.suggest(study.ask()) for _ in configs] == configs
