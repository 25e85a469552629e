"""``ask`` puts questions to the target and to stored models, and names what exists if a model does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from transformers import AutoModelForCausalLM, AutoTokenizer

from sweeper.api import Sweep, unlearn
from sweeper.cli.main import main
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import write_questions
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import save_model

QUESTION, ANSWER = "What is forget 1?", "It is 1."


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_questions(tmp_path / "data")


@pytest.fixture
def sweep(tmp_path: Path, data: Path, tiny_phi: Path) -> Path:
    """A sweep on a given target. Trial 00000 has an adapter after epoch 1, and the target itself after epoch 2."""
    options = {"dataset": "jsonl", "data_dir": data, "target_path": tiny_phi, "method": "ngdiff", "lr": 1e-3}
    out = Sweep.begin(out=tmp_path / "sweep", **options).out
    spec = read_settings(out).base.row()
    last = {"trial_id": "00000", "status": "finished", "steps": 4, "epochs_done": 2, "checkpoint": "checkpoints/00000"}
    tables = ResultTables(out)
    tables.trials.append([{**spec, **last}, {**spec, "trial_id": "00001", "status": "diverged", "steps": 1}])
    tables.history.append([{"trial_id": "00000", "step": step, "epoch": step / 2} for step in (2, 4)])
    epochs = {1: "checkpoints/00000-epoch-1", 1.5: "", 2: "checkpoints/00000"}
    tables.candidates.append(
        {"trial_id": "00000", "epoch": epoch, "step": 2 * epoch, "checkpoint": folder}
        for epoch, folder in epochs.items()
    )
    shutil.copytree(tiny_phi, out / "checkpoints" / "00000")
    adapted = add_adapter(AutoModelForCausalLM.from_pretrained(tiny_phi), rank=2, seed=0)
    with torch.no_grad():
        for name, weights in adapted.named_parameters():
            if "lora_B" in name:
                weights.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    save_model(adapted, AutoTokenizer.from_pretrained(tiny_phi), out / epochs[1])
    return out


def ask(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["ask", *map(str, arguments)], input=stdin)


def answers(*arguments: object, stdin: str = "") -> Any:
    result = ask(*arguments, "--json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: object) -> str:
    result = ask(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr


def test_the_target_and_each_named_model_answer(sweep: Path, tiny_phi: Path) -> None:
    named = ("--trial", "00000", "--trial", "00000", "--epoch", "1", "--epoch", "2")
    found = answers(sweep, QUESTION, "Who are you?", *named)
    assert found["models"] == {
        "target": str(tiny_phi.resolve()),
        "trial 00000 after epoch 1": str(sweep / "checkpoints" / "00000-epoch-1"),
        "trial 00000 after epoch 2": str(sweep / "checkpoints" / "00000"),
    }
    known, unknown = found["questions"]
    assert (known["question"], known["set"], known["true_answer"]) == (QUESTION, "forget", ANSWER)
    assert (unknown["question"], unknown["set"], unknown["true_answer"]) == ("Who are you?", None, None)
    target, adapter, copy = known["answers"].values()
    assert target == copy != adapter  # the last epoch of this trial has the target's weights


def test_without_an_epoch_the_rule_chooses_among_the_stored_epochs(sweep: Path) -> None:
    assert list(answers(sweep, QUESTION, "--trial", "00000")["models"]) == ["target", "trial 00000 after epoch 2"]
    shutil.rmtree(sweep / "checkpoints" / "00000")
    assert list(answers(sweep, QUESTION, "--trial", "00000")["models"]) == ["target", "trial 00000 after epoch 1"]


def test_the_true_answer_is_shown_above_the_answers(sweep: Path) -> None:
    lines = ask(sweep, QUESTION, "--trial", "00000").stdout.splitlines()
    assert lines[0] == QUESTION
    assert lines[1].split(maxsplit=3) == ["true", "answer", "(forget)", ANSWER]
    assert [line.split()[0] for line in lines[2:]] == ["target", "trial"]


def test_a_question_in_other_letters_is_shown_as_it_is_in_the_data(sweep: Path) -> None:
    lines = ask(sweep, QUESTION.upper(), "--trial", "00000").stdout.splitlines()
    assert lines[0] == QUESTION.upper()
    assert lines[1].split(maxsplit=3) == ["in", "the", "data", QUESTION]
    assert [line.split()[0] for line in lines[2:]] == ["true", "target", "trial"]


def test_stdin_has_one_question_per_line(sweep: Path) -> None:
    found = answers(sweep, "--trial", "00000", stdin=f"{QUESTION}\n\n  What is retain 2?\n")
    assert [item["question"] for item in found["questions"]] == [QUESTION, "What is retain 2?"]
    assert found["questions"][1]["true_answer"] == "It is 2."


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("--trial", "00007"), ("unknown trial '00007'", "with stored models: 00000")),
        (("--trial", "00001"), ("trial 00001 (diverged) has no stored model", "with stored models: 00000")),
        (("--trial", "00000", "--epoch", "1.5"), ("was evaluated, but its model was not kept", "stored models: 1, 2")),
        (("--trial", "00000", "--epoch", "9"), ("epoch 9 of trial 00000 does not exist", "stored models: 1, 2")),
        (("--trial", "00000", "--epoch", "1", "--epoch", "2"), ("got 1 --trial and 2 --epoch",)),
        (("--trial", "00007", "--trial", "00008"), ("'00007'", "'00008'")),
    ],
)
def test_a_model_that_does_not_exist_is_refused_with_those_that_exist(
    sweep: Path, arguments: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    message = refused(sweep, QUESTION, *arguments)
    assert all(fact in message for fact in facts), message


def test_empty_questions_and_folders_without_models_are_refused(sweep: Path, tmp_path: Path) -> None:
    assert "a question is empty" in refused(sweep, " ")
    assert "sweep.json is missing" in refused(tmp_path / "data", QUESTION)


def test_image_classifiers_answer_no_questions(sweep: Path) -> None:
    content = json.loads((sweep / "sweep.json").read_text())
    content["settings"]["base"] |= {"dataset": "digits", "model": "tiny-resnet"}
    (sweep / "sweep.json").write_text(json.dumps(content))
    assert "image classifiers, which cannot answer questions" in refused(sweep, QUESTION, "--trial", "00000")


def test_a_single_run_answers_too(tmp_path: Path, data: Path, tiny_phi: Path) -> None:
    options = {"dataset": "jsonl", "data_dir": data, "target_path": tiny_phi, "epochs": 1, "lora_rank": 2}
    unlearn(out=tmp_path / "run", method="ngdiff", lr=1e-3, **options)
    found = answers(tmp_path / "run", QUESTION)
    assert list(found["models"]) == ["target", "run"]
    assert found["questions"][0]["true_answer"] == ANSWER
    assert "applies to a sweep" in refused(tmp_path / "run", QUESTION, "--trial", "00000")
