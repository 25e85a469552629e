"""Data files, output folders and space files that cannot be used are named; all problems are listed at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.s3_server import s3_server
from tests.sweeper.cli.conftest import Command, invoke, names, problems_of

GOOD = json.dumps({"question": "Q?", "answer": "A."})
BAD_FILES: dict[str, tuple[str | bytes | None, str]] = {
    "missing": (None, "--data-dir"),
    "empty": ("", "rows"),
    "not JSON": (f"{GOOD}\n\n{GOOD}\n{{question: Q?}}\n", "line 4"),
    "cut in the middle": (f"{GOOD}\n{GOOD[:-3]}", "line 2"),
    "a list": (f"{GOOD}\n[1, 2]\n", "line 2"),
    "no answer": (f'{GOOD}\n{{"question": "Q?"}}\n', "line 2 'answer'"),
    "an empty question": ('{"question": "", "answer": "A."}\n', "line 1 'question'"),
    "an answer that is a number": ('{"question": "Q?", "answer": 5}\n', "line 1 'answer'"),
    "perturbed answers that are a text": (
        '{"question": "Q?", "answer": "A.", "perturbed_answer": "B."}\n',
        "line 1 'perturbed_answer' list",
    ),
    "not UTF-8": (b"\x80\x81\x82", ""),
}


@pytest.mark.parametrize(("content", "named"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_data_file_is_named_with_the_line(
    pareto: Command, data: Path, out: Path, content: str | bytes | None, named: str
) -> None:
    path = data / "retain99.json"
    path.unlink()
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (problem,) = problems_of(pareto())
    assert names(problem, ["retain99.json", *named.split()])
    assert not out.exists()
    (problem,) = problems_of(pareto(data=data / "nowhere"))
    assert names(problem, [f"{data}/nowhere", "--data-dir"])


# The output folder --------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("command", ["pareto", "unlearn"])
@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"sweep.json": '{"mine": true}', "trials.csv": "trial_id\n00000\n"}, "python -m sweeper resume"),
        ({"thesis.tex": "years of work"}, "empty"),
    ],
    ids=["another sweep", "anything"],
)
def test_a_folder_that_is_in_use_is_left_as_it_is(
    command: str, files: dict[str, str], named: str, request: pytest.FixtureRequest, out: Path
) -> None:
    out.mkdir()
    for name, text in files.items():
        (out / name).write_text(text)
    (problem,) = problems_of(request.getfixturevalue(command)())
    assert names(problem, [str(out), named])
    assert contents(out) == {name: text.encode() for name, text in files.items()}


@pytest.mark.parametrize("below", ["", "a/b"])
def test_a_file_where_the_output_folder_should_be_is_refused_with_the_other_problems(
    pareto: Command, out: Path, below: str
) -> None:
    out.write_text("a file")
    folder, trials = problems_of(pareto("--trials", "0", "--tracking-uri", "sqlite:///m.db", out=out / below))
    assert names(folder, ["--out", str(out), "file", "folder"])
    assert names(trials, ["trials"])
    assert out.read_text() == "a file"


@pytest.mark.parametrize("command", ["pareto", "unlearn", "target", "evaluate"])
def test_an_empty_name_is_refused_as_output_folder(command: str, model_folder: Path) -> None:
    given = ("--model-path", model_folder) if command == "evaluate" else ()
    assert any("--out" in problem for problem in problems_of(invoke(command, *given, "--out", "")))


@pytest.mark.parametrize("place", ["s3://bucket/sweeps", "gs://bucket", "hdfs://host/folder"])
def test_an_address_is_refused_as_output_folder(pareto: Command, tmp_path: Path, place: str) -> None:
    """Otherwise the sweep would be written to a local folder ``s3:``."""
    before = sorted(tmp_path.rglob("*"))
    (problem,) = problems_of(pareto("--out", place))
    assert names(problem, [f"--out {place}", "--storage"])
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("s3://me:hidden@bucket/sweeps", "credentials"),
        ("s3://bucket/sweeps?bogus=1", "bogus"),
        ("s3:///sweeps", "bucket"),
        ("nothing://bucket", "nothing://bucket"),
        ("a-file", "a-file"),
    ],
)
def test_a_storage_that_cannot_be_used_is_refused(pareto: Command, out: Path, place: str, named: str) -> None:
    Path("a-file").write_text("x")
    (problem,) = problems_of(pareto("--storage", place))
    assert names(problem, ["--storage", named])
    assert "hidden" not in problem
    assert not out.exists()


def test_a_missing_bucket_is_refused(pareto: Command, out: Path) -> None:
    with s3_server() as server:
        (problem,) = problems_of(pareto("--storage", server.uri("nowhere/sweeps")))
    assert "NO_SUCH_BUCKET" in problem
    assert not out.exists()


# All problems at once -----------------------------------------------------------------------------------------------


def test_all_problems_of_a_sweep_are_listed_at_once(pareto: Command, data: Path, out: Path) -> None:
    out.mkdir()
    (out / "sweep.json").write_text("{}")
    (data / "forget01.json").write_text("no JSON")
    arguments = [
        *("--method", "nonsense", "--method", "gdiff", "--c", "1.5", "--c", "half", "--lr", "0", "--lr", "x"),
        *("--trials", "0", "--seeds", "no", "--sampler", "magic", "--objectives", "speed:max", "--epochs", "0"),
        *("--option", "warmth=1", "--optimizer", "lion", "--gpus-per-trial", "1.5", "--auto-lr", "maybe"),
        *("--model-path", "/nowhere", "--tracking-uri", "./mlruns"),
    ]
    problems = "\n".join(problems_of(pareto(*arguments)))
    named = (
        *("nonsense", "c", "1.5", "half", "lr", "'x'", "trials", "'no'", "magic", "speed", "epochs", "warmth", "lion"),
        *("gpus-per-trial", "maybe", "/nowhere", "./mlruns", str(out), "forget01.json", "line 1"),
    )
    assert names(problems, named)
    assert contents(out) == {"sweep.json": b"{}"}


# Space files --------------------------------------------------------------------------------------------------------

SPACE_FILES = {
    "unknown parameter": ("method: gdiff\nlearning_rate: 1e-4\n", "2 learning_rate"),
    "unknown method": ("method: [gdif]\n", "1 gdif"),
    "no method": ("lr: [1e-4]\n", "method"),
    "c out of range": ("method: gdiff\nc: [0.5, 2]\n", "2 c"),
    "lr zero": ("method: gdiff\nlr: [0]\n", "2 lr 0"),
    "a range upside down": ("method: gdiff\nlr: {low: 1e-3, high: 1e-4}\n", "2 low high"),
    "text for a number": ("method: gdiff\nepochs: many\n", "2 epochs many"),
    "an option that does not apply": ("method: ngdiff\nc: [0.5]\n", "c ngdiff"),
    "what all trials share": ("method: gdiff\nmodel: [phi-1.5]\n", "2 model --model"),
    "a retain objective that excludes a method": ("method: [ngdiff, rmu]\nretain_objective: kl\n", "2 kl rmu"),
    "not YAML": ("method: [gdiff\n", "YAML"),
    "empty": ("", "empty"),
    "missing": (None, ""),
}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    return tmp_path / "space.yaml"


@pytest.mark.parametrize(("content", "named"), SPACE_FILES.values(), ids=SPACE_FILES)
def test_a_space_file_that_cannot_be_used_is_named_with_the_line(
    pareto: Command, space: Path, content: str | None, named: str
) -> None:
    if content is not None:
        space.write_text(content)
    (problem,) = problems_of(pareto("--space", space))
    assert names(problem, [str(space), *named.split()])


def test_all_problems_of_a_space_file_are_listed_with_those_of_the_options(pareto: Command, space: Path) -> None:
    space.write_text("method: [gdiff, nonsense]\nlr: {low: 1e-3}\nc: {low: 0.5, high: 1.95}\nepochs: [0, 5]\n")
    problems = problems_of(pareto("--space", space, "--trials", "0"))
    expected = ([f"{space}:2", "lr", "high"], [f"{space}:4", "epochs", "0"], [f"{space}:3", "c", "1.95"])
    for named in (*expected, [f"{space}:1", "nonsense"], ["trials", "0"]):
        assert any(all(word in problem for word in named) for problem in problems), named
    assert len(problems) == 5


@pytest.mark.parametrize("typed", ["--method gdiff", "--method nonsense", "--lr 1e-4", "--c 0.5", "--option c=0.5"])
def test_what_a_space_file_has_cannot_be_an_option_too(pareto: Command, space: Path, typed: str) -> None:
    space.write_text("method: [gdiff]\nlr: [1e-4, 1e-3]\nc: [0.1, 0.9]\n")
    (problem,) = problems_of(pareto("--space", space, *typed.split()))
    assert names(problem, [typed.split()[0], str(space)] if "nonsense" not in typed else ["--method"])
