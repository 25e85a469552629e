"""Data files, output folders and space files that cannot be used are named; all that is wrong is said at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.s3_server import s3_server
from tests.sweeper.commands.conftest import invoke, problems_of

# Data files ---------------------------------------------------------------------------------------------------------


GOOD = json.dumps({"question": "Q?", "answer": "A."})
BAD_FILES = {
    "missing": (None, ["retain99.json", "--data-dir"]),
    "empty": ("", ["retain99.json", "no rows"]),
    "not JSON": (f"{GOOD}\n\n{GOOD}\n{{question: Q?}}\n", ["retain99.json, line 4"]),
    "cut in the middle": (f"{GOOD}\n{GOOD[:-3]}", ["retain99.json, line 2"]),
    "a list": (f"{GOOD}\n[1, 2]\n", ["retain99.json, line 2", "expected an object"]),
    "no answer": (f'{GOOD}\n{{"question": "Q?"}}\n', ["retain99.json, line 2", "'answer'"]),
    "an empty question": ('{"question": "", "answer": "A."}\n', ["retain99.json, line 1", "'question'"]),
    "an answer that is no text": ('{"question": "Q?", "answer": 5}\n', ["retain99.json, line 1", "'answer'"]),
    "perturbed answers that are no list": (
        '{"question": "Q?", "answer": "A.", "perturbed_answer": "B."}\n',
        ["retain99.json, line 1", "'perturbed_answer' must be a list"],
    ),
}


@pytest.mark.parametrize(("content", "said"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_data_file_that_cannot_be_used_is_named_with_the_place(
    pareto: Callable[..., Result], data: Path, out: Path, content: str | None, said: list[str]
) -> None:
    path = data / "retain99.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    (problem,) = problems_of(pareto())
    for text in said:
        assert text in problem
    assert not out.exists()


def test_a_data_file_that_is_no_text_is_named(pareto: Callable[..., Result], data: Path) -> None:
    (data / "retain99.json").write_bytes(b"\x80\x81\x82")
    (problem,) = problems_of(pareto())
    assert "retain99.json" in problem


def test_a_data_folder_that_is_not_there_is_named(pareto: Callable[..., Result], tmp_path: Path) -> None:
    (problem,) = problems_of(pareto(data=tmp_path / "nowhere"))
    assert str(tmp_path / "nowhere") in problem
    assert "--data-dir" in problem


# The output folder --------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_a_folder_with_another_sweep_is_left_as_it_is(command: str, request: pytest.FixtureRequest, out: Path) -> None:
    run = request.getfixturevalue(command)
    (out / "checkpoints").mkdir(parents=True)
    (out / "sweep.json").write_text('{"mine": true}')
    (out / "trials.csv").write_text("trial_id\n00000\n")
    before = contents(out)
    (problem,) = problems_of(run())
    assert "holds another sweep" in problem
    assert f"python -m sweeper resume {out}" in problem
    assert contents(out) == before


@pytest.mark.parametrize("command", ["pareto", "unlearn"])
def test_a_folder_with_anything_in_it_is_left_as_it_is(command: str, request: pytest.FixtureRequest, out: Path) -> None:
    run = request.getfixturevalue(command)
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    (problem,) = problems_of(run())
    assert "not empty" in problem
    assert contents(out) == {"thesis.tex": b"years of work"}


def test_a_file_is_no_output_folder(pareto: Callable[..., Result], out: Path) -> None:
    out.write_text("a file")
    (problem,) = problems_of(pareto())
    assert "this is a file, expected a folder" in problem
    assert out.read_text() == "a file"


def test_a_folder_below_a_file_is_refused_with_the_other_problems(
    pareto: Callable[..., Result], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("x")
    below, trials = problems_of(
        pareto("--trials", "0", "--tracking-uri", "sqlite:///mlflow.db", out=tmp_path / "file" / "a" / "b")
    )
    assert below == f"--out {tmp_path}/file/a/b: {tmp_path}/file is a file, expected a folder"
    assert "trials" in trials


@pytest.mark.parametrize("command", ["pareto", "unlearn", "target", "evaluate"])
def test_no_name_is_no_output_folder(command: str, model_folder: Path) -> None:
    given = ("--model-path", model_folder) if command == "evaluate" else ()
    assert "--out must be the name of a folder, got nothing" in problems_of(invoke(command, *given, "--out", ""))


def test_a_file_cannot_hold_rays_state(pareto: Callable[..., Result], tmp_path: Path, out: Path) -> None:
    (tmp_path / "file").write_text("x")
    (problem,) = problems_of(pareto("--storage", tmp_path / "file"))
    assert "--storage" in problem
    assert not out.exists()


@pytest.mark.parametrize("place", ["s3://bucket/sweeps", "gs://bucket", "hdfs://host/folder"])
def test_an_output_folder_is_no_address(
    pareto: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """A folder called ``s3:`` would be made, and nobody would look for the sweep there."""
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    (problem,) = problems_of(pareto("--out", place))
    assert problem.startswith(f"--out {place}: object storage cannot be written to; expected a folder")
    assert "--storage" in problem
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("s3://me:hidden@bucket/sweeps", "credentials"),
        ("s3://bucket/sweeps?bogus=1", "bogus"),
        ("s3:///sweeps", "names no bucket"),
        ("nothing://bucket", "nothing://bucket"),
    ],
)
def test_a_storage_that_cannot_be_used_is_said_before_any_work(
    pareto: Callable[..., Result], out: Path, place: str, said: str
) -> None:
    (problem,) = problems_of(pareto("--storage", place))
    assert problem.startswith("--storage")
    assert said in problem
    assert "hidden" not in problem
    assert not out.exists()


def test_a_bucket_that_is_not_there_is_said_before_any_work(pareto: Callable[..., Result], out: Path) -> None:
    with s3_server() as server:
        (problem,) = problems_of(pareto("--storage", server.uri("nowhere/sweeps")))
    assert "NO_SUCH_BUCKET" in problem
    assert not out.exists()


# Everything wrong at once -------------------------------------------------------------------------------------------


def test_all_problems_of_a_sweep_are_said_at_once(pareto: Callable[..., Result], data: Path, out: Path) -> None:
    out.mkdir()
    (out / "sweep.json").write_text("{}")
    (data / "forget01.json").write_text("no JSON")
    arguments = [
        *("--method", "nonsense", "--method", "gdiff", "--c", "1.5", "--c", "half", "--lr", "0", "--lr", "x"),
        *("--trials", "0", "--seeds", "no", "--sampler", "magic", "--objectives", "speed:max", "--epochs", "0"),
        *("--option", "warmth=1", "--optimizer", "lion", "--gpus-per-trial", "1.5", "--auto-lr", "maybe"),
        *("--model-path", "/nowhere", "--tracking-uri", "./mlruns"),
    ]
    problems = problems_of(pareto(*arguments))
    expected = (
        *("'nonsense'", "c must be in [0, 1]", "'half'", "lr must be", "'x'", "trials must be", "'no'", "'magic'"),
        *("'speed'", "epochs must be", "warmth", "'lion'", "gpus-per-trial", "'maybe'", "/nowhere", "./mlruns"),
        *("holds another sweep", "forget01.json, line 1"),
    )
    for text in expected:
        assert any(text in problem for problem in problems), f"not said: {text}"
    assert contents(out) == {"sweep.json": b"{}"}


def test_all_problems_of_a_run_are_said_at_once(unlearn: Callable[..., Result], data: Path) -> None:
    (data / "forget01.json").unlink()
    problems = problems_of(unlearn("--method", "nonsense", "--lr", "-1", "--dtype", "fp16", "--batch-size", "x"))
    for text in ("'nonsense'", "lr must be", "'fp16'", "'x'", "forget01.json"):
        assert any(text in problem for problem in problems), f"not said: {text}"


def test_a_space_file_is_checked_together_with_the_rest(
    pareto: Callable[..., Result], tmp_path: Path, data: Path
) -> None:
    (tmp_path / "space.yaml").write_text("method: [gdiff, nonsense]\nlr: {low: 1, high: 0.1}\n")
    problems = problems_of(pareto("--space", tmp_path / "space.yaml", "--trials", "0"))
    for text in ("nonsense", "space.yaml:2", "trials must be"):
        assert any(text in problem for problem in problems), f"not said: {text}"


# Space files --------------------------------------------------------------------------------------------------------


SPACE_FILES: dict[str, tuple[str, list[str]]] = {
    "unknown parameter": ("method: gdiff\nlearning_rate: 1e-4\n", [":2", "unknown parameter 'learning_rate'"]),
    "unknown method": ("method: [gdif]\n", ["unknown method 'gdif'"]),
    "no method": ("lr: [1e-4]\n", ["which methods", "method: ["]),
    "c out of range": ("method: gdiff\nc: [0.5, 2]\n", ["c must be in [0, 1], got 2"]),
    "lr zero": ("method: gdiff\nlr: [0]\n", ["lr must be", "greater than 0, got 0"]),
    "a range upside down": ("method: gdiff\nlr: {low: 1e-3, high: 1e-4}\n", [":2", "low must be less than high"]),
    "text for a number": ("method: gdiff\nepochs: many\n", [":2", "epochs", "'many'"]),
    "an option that does not apply": ("method: ngdiff\nc: [0.5]\n", ["option c does not apply to ngdiff"]),
    "what all trials share": (
        "method: gdiff\nmodel: [phi-1.5]\n",
        [":2", "model: cannot vary within a sweep", "--model"],
    ),
    "no YAML": ("method: [gdiff\n", ["not valid YAML"]),
    "empty": ("", ["the file is empty"]),
}


@pytest.mark.parametrize(("content", "said"), SPACE_FILES.values(), ids=SPACE_FILES)
def test_a_space_file_that_cannot_be_used_is_named_with_the_place(
    pareto: Callable[..., Result], tmp_path: Path, content: str, said: list[str]
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text(content)
    (problem,) = problems_of(pareto("--space", path))
    for text in ("space.yaml", *said):
        assert text in problem


def test_values_are_looked_at_in_a_space_file_with_other_mistakes(
    pareto: Callable[..., Result], tmp_path: Path
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [gdiff, nonsense]\nlr: {low: 1e-3}\nc: {low: 0.5, high: 1.95}\nepochs: [0, 5]\n")
    expected = (
        "2: lr: needs low and high, or values; high missing",
        "4: epochs must be at least 1, got 0",
        "3: c must be in [0, 1], got 1.95",
        "1: unknown method 'nonsense'",
    )
    for text, problem in zip(expected, problems_of(pareto("--space", path)), strict=True):
        assert problem.startswith(f"{path}:{text}")


def test_a_space_file_that_is_not_there_is_named(pareto: Callable[..., Result]) -> None:
    (problem,) = problems_of(pareto("--space", "papers"))
    assert "papers" in problem


def test_an_unknown_method_beside_a_space_file_is_refused_too(pareto: Callable[..., Result], tmp_path: Path) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [gdiff]\n")
    assert problems_of(pareto("--space", path, "--method", "nonsense"))


@pytest.mark.parametrize("arguments", [["--method", "gdiff"], ["--lr", "1e-4"], ["--c", "0.5"], ["--option", "c=0.5"]])
def test_what_the_space_file_says_cannot_be_said_on_the_command_line_too(
    pareto: Callable[..., Result], tmp_path: Path, arguments: list[str]
) -> None:
    path = tmp_path / "space.yaml"
    path.write_text("method: [gdiff]\nlr: [1e-4, 1e-3]\nc: [0.1, 0.9]\n")
    (problem,) = problems_of(pareto("--space", path, *arguments))
    assert arguments[0] in problem
    assert "exclude each other" in problem
