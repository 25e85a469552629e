"""sweep.json is enough to run a sweep again, and a proposal becomes the spec that it describes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from search_spaces.builtin import default_space
from search_spaces.parameters import Choice, Number
from search_spaces.space import Space
from sweeper.settings.sweep_settings import SweepSettings
from trainables.methods import options_by_method
from trainables.spec import TrialSpec

SPACE = default_space(methods=options_by_method(("gdiff", "npo+ngdiff")), auto_lr="both", lr=(1e-4, 3e-4))
CONDITIONAL = Space(
    (
        Choice("method", ("gdiff", "ngdiff")),
        Number("c", 0.1, 0.995, log_to_one=True, when={"method": ("gdiff",)}, key="gdiff.c"),
        Number("epochs", 1, 10, log=True, grid=(1, 3, 10), whole=True),
    ),
    {"momentum": 0.0, "gradient_checkpointing": False, "max_grad_norm": None},
)


def make_settings(**given: Any) -> SweepSettings:
    values: dict[str, Any] = {"name": "s", "base": TrialSpec(), "space": SPACE, "trials": 4}
    return SweepSettings(**{**values, **given})


EXAMPLES = {
    "everything": make_settings(
        base=TrialSpec(
            model="my model",
            model_path="/models/a b",
            dataset="tofu",
            data_dir="/data",
            forget_split="forget01",
            options=(("c", 0.1 + 0.2),),
            max_grad_norm=1.0,
            lora_rank=4,
            seed=3,
        ),
        sampler="nsga2",
        seeds=3,
        seed=3,
        objectives="verbmem:min,utility:max",
        cpus_per_trial=2.0,
        gpus_per_trial=0.25,
        max_concurrent=3,
        address="auto",
        storage="/ray",
        tracking_uri="http://localhost:5000",
        experiment="e",
        time_budget_seconds=60.5,
    ),
    "conditional space": make_settings(space=CONDITIONAL),
    "nothing to search": make_settings(space=Space((), {"method": "gd"})),
}


@pytest.mark.parametrize("settings", EXAMPLES.values(), ids=EXAMPLES)
def test_settings_come_back_from_json_as_they_were(settings: SweepSettings) -> None:
    back = SweepSettings.from_dict(json.loads(json.dumps(settings.to_dict())))
    assert back == settings
    assert back.base.spec_hash == settings.base.spec_hash
    assert back.space.parameters == settings.space.parameters
    assert back.space.constants == settings.space.constants


def test_a_proposal_becomes_the_spec_it_describes() -> None:
    base = TrialSpec(epochs=7, optimizer="sgd", model="m")
    config = {"method": "gdiff", "lr": 3e-4, "auto_lr": "on", "seed": 5, "weight_decay": 0.1, "lora_rank": 8}
    spec = make_settings(base=base).make_spec(config | {"c": 0.3}, target_key="abc")
    assert spec == replace(base, **config, options=(("c", 0.3),), target_key="abc")
    # Options that do not apply are left out, and missing ones have their default.
    settings = make_settings(base=TrialSpec(options=(("c", 0.9),)))
    for method, options in (("ngdiff", ()), ("gdiff", (("c", 0.9),)), ("npo", (("beta", 0.1),))):
        more = {"c": 0.3} if method == "ngdiff" else {}
        assert settings.make_spec({"method": method, **more}, target_key="").options == options


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


def test_the_password_of_the_tracking_address_is_not_written() -> None:
    secret = make_settings(tracking_uri="https://ann:s3cret@host/mlflow")
    assert "s3cret" not in json.dumps(secret.to_dict())
    assert SweepSettings.from_dict(secret.to_dict()) == replace(secret, tracking_uri="https://ann@host/mlflow")


def test_the_parameters_for_mlflow_have_no_value_that_no_trial_has() -> None:
    base = TrialSpec(method="gdiff", options=(), lr=1e-4, batch_size=4)
    space = default_space(methods=options_by_method(("gdiff", "npo+ngdiff")), lr_range=(1e-5, 1e-3))
    shown = make_settings(base=base, space=space, seeds=2, seed=5).params
    assert (shown["method"], shown["lr"], shown["seed"]) == ("gdiff, npo+ngdiff", "1e-05 to 0.001, log", "5, 6")
    assert str(shown["c"]).endswith("gdiff")
    assert str(shown["beta"]).endswith("npo+ngdiff")
    assert (shown["batch_size"], shown["auto_lr"], "tau" in shown) == (4, "off", False)
    grid = make_settings(space=CONDITIONAL, sampler="grid").params
    assert (grid["epochs"], grid["momentum"]) == ("1, 3, 10", 0.0)
    assert make_settings(space=CONDITIONAL).params["epochs"] == "1 to 10, log"
    two = default_space(methods=options_by_method(("npo", "simnpo")), lr=(1e-4,))
    parts = str(make_settings(space=two).params["beta"]).split("; ")
    assert [part.split()[-1] for part in parts] == ["npo", "simnpo"], "equal names of two methods"


def test_the_methods_of_a_sweep_are_those_of_its_space_or_of_its_base() -> None:
    assert make_settings().methods == ("gdiff", "npo+ngdiff")
    assert make_settings(space=CONDITIONAL).methods == ("gdiff", "ngdiff")
    lr = Choice("lr", (1e-4, 1e-3))
    assert make_settings(space=Space((lr,), {"method": "pcgrad"})).methods == ("pcgrad",)
    assert make_settings(space=Space((lr,)), base=TrialSpec(method="npo")).methods == ("npo",)
