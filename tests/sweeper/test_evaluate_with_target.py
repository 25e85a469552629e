"""``evaluate`` shows the target's scores beside the model's, if the target is given or known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeper.api import unlearn
from sweeper.cli.main import main
from sweeper.export.target_of_model import target_of_model
from tests.facts import assert_names
from tests.sweeper.conftest import write_questions
from trainables.models.registry import TINY_RECIPE
from trainables.scoring.base import Measurement
from trainables.spec import TrialSpec
from trainables.target.cache import RECORD
from trainables.target.target import RELEARN_LR, attack_settings

TARGET_METRICS = {"retain_kl", "forget_answer_loss"}
"""Default metrics that compare the model with the target."""


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "data")


def evaluate(data: Path, model: Path, *arguments: object) -> Result:
    words = ("evaluate", "--dataset", "jsonl", "--data-dir", data, "--model-path", model, *arguments)
    return CliRunner().invoke(main, [str(word) for word in words])


def scores(data: Path, model: Path, *arguments: object) -> Any:
    result = evaluate(data, model, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("rank", [None, 2])
def test_the_target_of_a_run_is_known(tmp_path: Path, data: Path, tiny_phi: Path, rank: int | None) -> None:
    options: dict[str, Any] = {"dataset": "jsonl", "data_dir": data, "target_path": tiny_phi, "method": "ngdiff"}
    run = tmp_path / "run"
    unlearn(out=run, lr=1e-2, epochs=1, **options, **({} if rank is None else {"lora_rank": rank}))
    found = scores(data, run / "checkpoint", "--out", tmp_path / "scores")
    row = json.loads((run / "metrics.json").read_text())
    target = found.pop("target")
    measured = {name: value for name, value in found.items() if value is not None}  # no answer has a key fact
    assert measured == pytest.approx({name: row[name] for name in measured}, rel=1e-5)
    alone = scores(data, tiny_phi)
    for name in ("forget_loss", "retain_loss", "verbmem", "utility"):
        assert target[name] == pytest.approx(alone[name]), name
    assert target.keys() - alone.keys() == TARGET_METRICS
    assert target["retain_kl"] == pytest.approx(0.0, abs=1e-5) != found["retain_kl"]
    assert json.loads((tmp_path / "scores" / "metrics.json").read_text())["target"] == target
    lines = evaluate(data, run / "checkpoint").stdout.splitlines()
    assert f"(target {target['forget_loss']:.10g})" in next(line for line in lines if line.startswith("forget_loss "))


def test_the_target_of_a_checkpoint_is_that_of_its_sweep(tmp_path: Path, tiny_phi: Path) -> None:
    checkpoint = tmp_path / "sweep" / "checkpoints" / "00000"
    shutil.copytree(tiny_phi, checkpoint)
    assert target_of_model(checkpoint) is None
    content = {"sweep_id": "1", "created": "", "target": {"key": "k", "path": str(tiny_phi)}}
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps(content))
    assert target_of_model(checkpoint) == tiny_phi


def test_a_given_target_is_compared_and_a_missing_one_is_refused(tmp_path: Path, data: Path, tiny_phi: Path) -> None:
    model = Path(shutil.copytree(tiny_phi, tmp_path / "model"))
    assert "target" not in scores(data, model)
    found = scores(data, model, "--target-path", tiny_phi)
    assert found["target"] == {name: value for name, value in found.items() if name != "target"}
    refused = evaluate(data, model, "--target-path", tmp_path / "nowhere")
    assert refused.exit_code == 2
    assert f"--target-path {tmp_path / 'nowhere'}: no such folder" in refused.stderr


def test_an_attack_that_trains_needs_the_rate_of_the_fine_tuning(
    tmp_path: Path, data: Path, tiny_phi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate of another model would destroy the model, so that it seems to resist."""
    refused = evaluate(data, tiny_phi, "--attacks", "quantize,relearn")
    assert refused.exit_code == 2
    assert_names(refused.output, "--attacks quantize,relearn", "unknown", "--relearn-lr", "--model")
    missing = evaluate(data, tmp_path / "nowhere", "--attacks", "relearn")
    assert missing.exit_code == 2
    assert "nowhere: no such folder" in missing.stderr
    assert "fine-tuning is unknown" not in missing.stderr
    rates = []

    def scored(spec: TrialSpec, **_: object) -> Measurement:
        rates.append(attack_settings(spec)["relearn_lr"])
        return Measurement({"verbmem": 0.5}, {}, 0.0)

    monkeypatch.setattr("trainables.target.prepare.score_checkpoint", scored)
    trained, with_lora = tmp_path / "trained", tmp_path / "with-lora"
    for folder, recipe in ((trained, {"lr": 3e-4, "lora_rank": None}), (with_lora, {"lr": 1e-3, "lora_rank": 8})):
        shutil.copytree(tiny_phi, folder)
        (folder / RECORD).write_text(json.dumps({"recipe": recipe}))
    for model, options in (
        (trained, ()),
        (with_lora, ()),
        (tiny_phi, ("--relearn-lr", 5e-4)),
        (tiny_phi, ("--model", "tiny-phi")),
    ):
        assert evaluate(data, model, "--attacks", "relearn", *options).exit_code == 0
    assert rates == [3e-4, RELEARN_LR, 5e-4, TINY_RECIPE.lr]
