"""``pick --trial`` takes the model that the user names, and says only what is true of this model."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sweeper.cli.main import main

NAMED, OTHER = "00004", "00011"
VERBMEM = {NAMED: "0.474", OTHER: "0.213"}


@pytest.fixture
def sweep(golden: Path, tiny_phi: Path) -> Path:
    """The golden sweep, with checkpoints of two trials."""
    for name in (NAMED, OTHER):
        shutil.copytree(tiny_phi, golden / "checkpoints" / name)
    return golden


def pick(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pick", *map(str, arguments)])


def picked(*arguments: object) -> Any:
    result = pick(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def refused(*arguments: object) -> str:
    result = pick(*arguments)
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    return result.stderr


def test_the_named_model_is_taken_and_judged(sweep: Path) -> None:
    found = picked(sweep, "--trial", NAMED)
    assert (found["trial_id"], found["rule"], found["epoch"]) == (NAMED, "trial", 3)
    assert found["checkpoint"] == str(sweep / "checkpoints" / NAMED)
    assert f"--trial {NAMED}" in found["reason"]
    text = " ".join(found["judgement"]["lines"])
    assert VERBMEM[NAMED] in text
    assert VERBMEM[OTHER] not in text
    assert not found["judgement"]["recommended"]
    assert picked(sweep, "--trial", NAMED, "--epoch", "3") == {
        **found,
        "reason": f"given with --trial {NAMED} --epoch 3",
    }


def test_the_card_is_about_the_named_model(sweep: Path, tmp_path: Path) -> None:
    result = pick(sweep, "--trial", NAMED, "--export", tmp_path / "model")
    assert result.exit_code == 0, result.output
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"trial {NAMED}" in card
    assert f"pick {sweep} --trial {NAMED} --export {tmp_path / 'model'}" in card
    assert not re.findall(rf"trial {OTHER}|{VERBMEM[OTHER]}", card)


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("--trial", "7"), ("unknown trial '7'", f"trials with stored models: {NAMED}, {OTHER}")),
        (("--trial", "00000"), ("trial 00000 (finished) has no stored model", f"{NAMED}, {OTHER}")),
        (
            ("--trial", NAMED, "--epoch", "2"),
            (f"epoch 2 of trial {NAMED} does not exist", "epochs with stored models: 3"),
        ),
        (("--epoch", "2"), ("--epoch needs --trial ID",)),
        (("--trial", NAMED, "--rule", "knee"), ("cannot be used with --rule",)),
        (("--trial", NAMED, "--maximize", "utility", "--where", "lr<=1"), ("with --where, --maximize",)),
    ],
)
def test_other_names_are_refused_with_those_that_exist(
    sweep: Path, arguments: tuple[str, ...], facts: tuple[str, ...]
) -> None:
    message = refused(sweep, *arguments)
    assert all(fact in message for fact in facts), message


def test_a_checkpoint_that_is_gone_is_refused(sweep: Path) -> None:
    shutil.rmtree(sweep / "checkpoints" / NAMED)
    message = refused(sweep, "--trial", NAMED)
    assert f"has no stored model; trials with stored models: {OTHER}" in message
