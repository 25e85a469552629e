"""A proposal becomes the spec that it describes; the settings of a sweep as parameters for MLflow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.builtin import default_space
from search_spaces.parameters import Choice
from search_spaces.space import Space
from sweeper.settings.sweep_settings import SweepSettings
from trainables.methods import options_by_method
from trainables.metrics.registry import METRICS
from trainables.spec import TrialSpec

SPACE = default_space(methods=options_by_method(("gdiff", "npo+ngdiff")), auto_lr=("off", "gen"), lr=(1e-4, 3e-4))


def make_settings(**given: Any) -> SweepSettings:
    values: dict[str, Any] = {"name": "s", "base": TrialSpec(), "space": SPACE, "trials": 4}
    return SweepSettings(**{**values, **given})


def test_a_proposal_becomes_the_spec_it_describes() -> None:
    base = TrialSpec(epochs=7, optimizer="sgd", model="m")
    config = {"method": "gdiff", "lr": 3e-4, "auto_lr": "gen", "seed": 5, "weight_decay": 0.1, "lora_rank": 8}
    spec = make_settings(base=base).make_spec(config | {"c": 0.3}, target_key="abc")
    assert spec == replace(base, **config, options=(("c", 0.3),), target_key="abc")
    # Options that do not apply are left out, and missing ones have their default.
    settings = make_settings(base=TrialSpec(options=(("c", 0.9),)))
    for method, options in (("ngdiff", ()), ("gdiff", (("c", 0.9),)), ("npo", (("beta", 0.1),))):
        more = {"c": 0.3} if method == "ngdiff" else {}
        assert settings.make_spec({"method": method, **more}, target_key="").options == options


def test_metrics_after_the_search_are_measured_on_the_target_and_do_not_constrain_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored_only = replace(METRICS["mia_loss"], after_search=True)
    monkeypatch.setattr("sweeper.settings.sweep_settings.METRICS", METRICS | {"mia_loss": stored_only})
    constraints = ("verbmem<=0.1", "mia_loss<=0.6")
    settings = make_settings(base=TrialSpec(metrics=("verbmem",)), after_search=("mia",), constraints=constraints)
    assert settings.base_spec(0).metrics == settings.attacked_spec(0).metrics == ("verbmem",)
    assert settings.measured_spec(0).metrics == ("verbmem", "mia")
    assert [item.name for item in settings.searched_constraints] == ["verbmem"]


def test_rays_state_is_in_the_output_folder_or_in_an_own_folder_of_the_given_storage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert make_settings().ray_storage(Path("out")) == tmp_path / "out" / "ray"
    settings = make_settings(storage=str(tmp_path / "ray"))
    one, other = tmp_path / "a" / "out", tmp_path / "b" / "out"
    assert settings.ray_storage(one) != settings.ray_storage(other)
    assert settings.ray_storage(one) == settings.ray_storage(tmp_path / "b" / ".." / "a" / "out")
    assert settings.ray_storage(one).is_relative_to(tmp_path / "ray")


def test_the_parameters_for_mlflow_have_no_value_that_no_trial_has() -> None:
    base = TrialSpec(method="gdiff", options=(), lr=1e-4, batch_size=4)
    space = default_space(methods=options_by_method(("gdiff", "npo+ngdiff")), lr_range=(1e-5, 1e-3))
    shown = make_settings(base=base, space=space, seeds=2, seed=5).params
    assert (shown["method"], shown["lr"], shown["seed"]) == ("gdiff, npo+ngdiff", "1e-05 to 0.001, log", "5, 6")
    assert str(shown["c"]).endswith("gdiff")
    assert str(shown["beta"]).endswith("npo+ngdiff")
    assert (shown["batch_size"], shown["auto_lr"], "tau" in shown) == (4, "off", False)


def test_the_methods_of_a_sweep_are_those_of_its_space_or_of_its_base() -> None:
    assert make_settings().methods == ("gdiff", "npo+ngdiff")
    lr = Choice("lr", (1e-4, 1e-3))
    assert make_settings(space=Space((lr,), {"method": "pcgrad"})).methods == ("pcgrad",)
    assert make_settings(space=Space((lr,)), base=TrialSpec(method="npo")).methods == ("npo",)


def test_sweep_json_keeps_the_names_that_differ_from_the_options() -> None:
    settings = make_settings(no_ship=True, constraints=("utility>=0.7",), time_budget_seconds=60.0)
    stored = settings.to_dict()
    expected = {"ship": False, "constraints": ("utility>=0.7",), "time_budget_seconds": 60.0}
    assert {name: stored[name] for name in expected} == expected
    assert "no_ship" not in stored
    assert SweepSettings.from_dict(stored) == settings
