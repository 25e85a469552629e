"""Plug-ins at the command line and in a sweep's folder.

Each command runs in its own process, because plug-ins must be loaded before the registries.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.store.plugins import plugin_records, restore_plugins, save_plugins
from tests.sweeper.cli.conftest import names, refused
from tests.sweeper.conftest import write_questions
from trainables import plugins

ROOT = Path(__file__).parents[3]
TOY = """from search_spaces.common.fields import Field
from trainables.weightings.base import Needs, Weighting, Weights

WEIGHTING = Weighting(
    name="toy",
    formula="(1, share)",
    needs=Needs.LOSSES,
    weigh=lambda losses, gramian, state, options: (Weights(1.0, options["share"]), state),
    citation="Toy 2026",
    options=(Field("share", 0.5, "of the forget loss", low=0.0, high=1.0),),
)
"""


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    path = tmp_path / "toy.py"
    path.write_text(TOY)
    return path


def sweeper(folder: Path, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    cache = str(folder / "cache")
    environment = {**os.environ, "XDG_CACHE_HOME": cache, "COLUMNS": "200", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "sweeper", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_parts_come_from_a_file(toy: Path) -> None:
    rows = json.loads(sweeper(toy.parent, "list", "methods", "--plugin", "toy.py", "--json").stdout)
    assert {row["name"]: row["yours"] for row in rows if row["yours"]} == {"toy": str(toy)}


def test_a_sweep_of_the_python_api_has_the_plug_ins_of_its_config_file(toy: Path) -> None:
    toy.with_name("sweep.yaml").write_text("plugin: [toy.py]\nmethod: toy\ntrials: 1\n")
    begin = "from sweeper import Sweep; Sweep.begin(config='sweep.yaml', out='out')"
    command = [sys.executable, "-c", begin]
    environment = {**os.environ, "XDG_CACHE_HOME": str(toy.with_name("cache")), "PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=toy.parent, env=environment, check=True)
    assert (toy.with_name("out") / "plugins" / "toy.py").read_text() == TOY
    assert "toy.py" in sweeper(toy.parent, "config", "out").stdout


@pytest.mark.parametrize("taken", [[('"toy"', '"ngdiff"'), ('"toy"', '"npo"')], [('"share"', '"lr"')]])
def test_names_that_exist_already_are_refused_before_any_work(toy: Path, taken: list[tuple[str, str]]) -> None:
    """The name of a weighting, of a method and of a column."""
    files = [toy.with_name(f"toy{number}.py") for number in range(len(taken))]
    for path, change in zip(files, taken, strict=True):
        path.write_text(TOY.replace(*change))
    words = [word for path in files for word in ("--plugin", path.name)]
    errors = sweeper(toy.parent, "pareto", *words, "--method", "toy", code=2).stderr.splitlines()
    for error, path, (_, name) in zip(errors, files, taken, strict=True):
        assert names(error, [path.name, name.strip('"')])


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("--template nothing", "template 'nothing' question-answer chat"),
        ("--template gone.jinja", "gone.jinja"),
        ("--template chat --dataset authors", "template chat tiny-phi"),
        ("--template chat --model tiny-resnet", "template"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused(
    typed: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert names("\n".join(refused("unlearn", *typed.split())), named.split())


@pytest.fixture
def begun(toy: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a sweep that started with the plug-in, which is still loaded in this process."""
    monkeypatch.setattr(plugins, "_active", [plugins.read(toy)])
    out = toy.parent / "out"
    out.mkdir()
    save_plugins(out)
    (out / "sweep.json").write_text(json.dumps({"plugins": plugin_records()}))
    return out


def test_a_sweep_uses_its_own_copy_when_the_original_changes(begun: Path, toy: Path) -> None:
    (entry,) = json.loads((begun / "sweep.json").read_text())["plugins"]
    assert (begun / entry["file"]).read_text() == TOY
    assert (entry["name"], entry["parts"], len(entry["digest"])) == ("toy.py", ["weighting toy"], 16)
    assert restore_plugins(begun) == []
    toy.write_text(TOY + "# changed\n")
    (line,) = restore_plugins(begun)
    assert names(line, [str(toy), str(begun / "plugins" / "toy.py")])
    toy.unlink()
    assert restore_plugins(begun) == []


def test_pick_loads_a_sweeps_plugins_before_the_registries(begun: Path, toy: Path) -> None:
    """The folder has no settings, so the command ends after it has loaded the plug-in."""
    refused = sweeper(begun.parent, "pick", "out", code=2)
    assert "sweep.json" in refused.stderr
    assert toy.name not in refused.stderr


@pytest.mark.parametrize("damage", ["changed", "gone", "plugins/../../toy.py", "/etc/toy.py"])
def test_a_damaged_copy_or_a_place_outside_the_folder_is_refused(begun: Path, damage: str) -> None:
    copy, settings = begun / "plugins" / "toy.py", begun / "sweep.json"
    if damage == "changed":
        copy.write_text(TOY + "# changed\n")
    elif damage == "gone":
        copy.unlink()
    else:
        settings.write_text(settings.read_text().replace("plugins/toy.py", damage))
    with pytest.raises(plugins.PluginError) as caught:
        restore_plugins(begun)
    assert str(caught.value).startswith(f"{copy if damage in ('changed', 'gone') else settings}: ")


def test_evaluate_loads_plug_ins_before_the_registries(toy: Path) -> None:
    words = ("evaluate", "--plugin", "toy.py", "--dataset", "jsonl", "--data-dir", "mine", "--model-path", "nowhere")
    done = sweeper(toy.parent, *words, code=2)
    assert "registries" not in done.stderr
    assert "--model-path nowhere: no such folder" in done.stderr


def test_a_question_set_is_measured_and_copied_and_named_by_the_config_file(tmp_path: Path) -> None:
    write_questions(tmp_path / "mine")
    questions = tmp_path / "more.jsonl"
    questions.write_text('{"question": "What is retain 1?", "answer": "It is 1."}\n')
    task = ("--dataset", "jsonl", "--data-dir", "mine", "--questions", "own=more.jsonl", "--metrics", "verbmem")
    short = ("--target-epochs", "1", "--epochs", "1", "--method", "ngdiff")
    row = json.loads(sweeper(tmp_path, "unlearn", *task, *short, "--out", "run", "--json").stdout)
    assert 0 <= row["own_recall"] <= 1
    options = "dataset='jsonl', data_dir='mine', questions={'own': 'more.jsonl'}"
    begin = f"from sweeper import Sweep; Sweep.begin(out='out', {options})"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", begin], cwd=tmp_path, env=environment, check=True)
    copy = tmp_path / "out" / "plugins" / "own.questions.jsonl"
    assert copy.read_text() == questions.read_text()
    assert f"- own={copy}" in sweeper(tmp_path, "config", "out").stdout


@pytest.mark.skipif(importlib.util.find_spec("lm_eval") is None, reason="lm-eval is not installed (extra lm-eval)")
def test_a_task_of_lm_eval_is_measured_on_stored_models_only_and_needs_a_language_model(tmp_path: Path) -> None:
    """The trials of the sweep measure the other metrics."""
    write_questions(tmp_path / "mine")
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "towns.jsonl").write_text(
        '{"question": "Where?", "choices": ["here", "there"], "answer": 0}\n'
    )
    task = {"task": "towns", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": "towns.jsonl"}}}
    task |= {"test_split": "test", "output_type": "multiple_choice", "metric_list": [{"metric": "acc"}]}
    task |= {"doc_to_text": "{{question}}", "doc_to_choice": "{{choices}}", "doc_to_target": "{{answer}}"}
    (tmp_path / "tasks" / "towns.yaml").write_text(json.dumps(task))
    options = "dataset='jsonl', data_dir='mine', metrics='verbmem,lm_eval:towns', lm_eval_tasks='tasks'"
    begin = f"from sweeper import Sweep; Sweep.begin(out='out', {options}, constraint=['lm_eval_towns>=0.5'])"
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", begin], cwd=tmp_path, env=environment, check=True)
    settings = json.loads((tmp_path / "out" / "sweep.json").read_text())["settings"]
    assert (settings["after_search"], settings["base"]["metrics"]) == (["lm_eval:towns"], ["verbmem"])
    copy = json.loads((tmp_path / "out" / "plugins" / "towns.lm_eval.json").read_text())
    assert (copy["folder"], copy["metric"]) == (str(tmp_path / "tasks"), "acc")
    words = ("--metrics", "default,lm_eval:towns", "--lm-eval-tasks", "tasks")
    error = sweeper(tmp_path, "pareto", "--dataset", "digits", *words, "--dry-run", code=2).stderr
    assert "lm_eval:towns needs a language model" in error


def test_problems_of_question_sets_are_reported_together(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "What?", "answer": ""}\n')
    (tmp_path / "rows.parquet").write_text("")
    given = ("a=rows.jsonl", "b=gone.jsonl", "retain=rows.jsonl", "rows.jsonl", "c=rows.parquet")
    words = [word for text in given for word in ("--questions", text)]
    errors = sweeper(tmp_path, "unlearn", *words, code=2).stderr.splitlines()
    expected = ["rows.jsonl, line 1: column 'answer'", "gone.jsonl", "'retain' is that of a set", "NAME=FILE", ".csv"]
    assert len(errors) == 5
    assert all(text in error for text, error in zip(expected, errors, strict=True)), errors
