"""``unlearn`` from the command line: one step equals the update computed by hand; interpolation; broken targets."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.problem import Problem, question_part, whole_text
from tests.e2e.conftest import Cli

if TYPE_CHECKING:
    import torch

pytestmark = [pytest.mark.slow, pytest.mark.ray]


def loss_by_hand(model: Any, tokenizer: Any, rows: list[dict[str, str]]) -> torch.Tensor:
    """Mean cross-entropy over all answer tokens and EOS, one sequence at a time, so that nothing is padded."""
    import torch

    losses = []
    for row in rows:
        prompt = len(tokenizer(question_part(row))["input_ids"])
        tokens = torch.tensor([[*tokenizer(whole_text(row))["input_ids"], tokenizer.eos_token_id]])
        log_p = model(tokens).logits[0, :-1].log_softmax(dim=-1)
        losses.append(-log_p[torch.arange(tokens.shape[1] - 1), tokens[0, 1:]][prompt - 1 :])
    return torch.cat(losses).mean()


@pytest.mark.parametrize("weights", [(0.7, 0.3), (0.0, 1.0)], ids=["gdiff with c = 0.7", "ga"])
def test_one_step_of_sgd_equals_the_update_computed_by_hand(
    cli: Cli, data: Path, target: Path, tmp_path: Path, weights: tuple[float, float]
) -> None:
    """theta - lr (c grad L_R - (1 - c) grad L_F), both sets in one batch; in float64."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    lr, (c, forget_weight) = 0.5, weights
    method = ["--method", "gdiff", "--c", str(c)] if c else ["--method", "ga"]
    cli.run(
        *("unlearn", *cli.problem, *method, "--optimizer", "sgd", "--lr", str(lr), "--max-steps", "1"),
        *("--limit", "20", "--batch-size", "20", "--out", tmp_path / "run"),
    )

    tokenizer = AutoTokenizer.from_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).double().train()
    forget, retain = Problem(data, target).forget, Problem(data, target).retain[:20]
    (c * loss_by_hand(model, tokenizer, retain) - forget_weight * loss_by_hand(model, tokenizer, forget)).backward()
    expected = {name: value.detach() - lr * value.grad for name, value in model.named_parameters()}
    moved = max(float(value.grad.abs().max()) for value in model.parameters())
    assert lr * moved > 1e-3, "the step is too small for this test"

    saved = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "checkpoint", dtype=torch.float32)
    for name, value in saved.named_parameters():
        torch.testing.assert_close(value.detach().double(), expected[name], rtol=0, atol=1e-6, msg=name)


def test_an_interpolated_checkpoint_lies_between_the_weights_of_the_target_and_the_last_epoch(
    cli: Cli, data: Path, target: Path, tmp_path: Path
) -> None:
    """The share in history.csv must explain the saved weights. Half of the retain rows are not scored."""
    import torch
    from safetensors.torch import load_file

    half = shutil.copytree(data, tmp_path / "data")
    (scored,) = half.glob("retain_perturbed.*")
    lines = scored.read_text().splitlines(keepends=True)
    scored.write_text("".join(lines[: len(lines) // 2]))
    given = (*cli.problem, "--data-dir", half, "--method", "ga", "--lr", "1e-2", "--epochs", "4", "--batch-size", "5")
    said = {
        name: cli.run("unlearn", *given, "--interpolate", name, "--out", tmp_path / name).stderr
        for name in ("off", "on")
    }
    with (tmp_path / "on" / "history.csv").open(newline="") as file:
        shares = [row["interpolation"] for row in csv.DictReader(file)]
    assert shares[:-1] == [""] * 3, "only the last epoch is interpolated"
    share = float(shares[-1])
    assert 0.0 < share < 1.0
    assert f"{share:.0%} of the way" in said["on"]
    assert "of the way" not in said["off"]
    target, last, found = (
        load_file(folder / "model.safetensors")
        for folder in (target, *(tmp_path / name / "checkpoint" for name in ("off", "on")))
    )
    for name, value in found.items():
        expected = target[name].double() + share * (last[name].double() - target[name].double())
        torch.testing.assert_close(value.double(), expected, rtol=1e-6, atol=1e-7, msg=name)
    moved = max(float((value - target[name]).abs().max()) for name, value in last.items())
    assert moved > 1e-2, "the weights moved too little for this test"


def test_the_error_of_a_target_of_another_architecture_names_its_folder(cli: Cli, target: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(target, broken)
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"model_type": "vit", "architectures": ["ViTModel"]}))
    problem = [str(broken) if part == str(target) else part for part in cli.problem]
    done = cli.run("unlearn", *problem, code=2)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert str(broken) in line
