"""``--config FILE`` and ``config DIR``: a command's options in a file, and the file that reproduces a sweep."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from sweeper.cli import main
from sweeper.commands.config import config_text
from sweeper.commands.config_file import typed
from sweeper.commands.examples import EXAMPLES
from sweeper.commands.from_options import single_spec, sweep_settings
from sweeper.commands.lr_study import lr_study
from sweeper.commands.lr_study_settings import lr_study_settings
from sweeper.commands.pareto import command_line, pareto
from sweeper.commands.python_options import options_of
from sweeper.commands.unlearn import unlearn
from sweeper.folder import begin, read_settings
from sweeper.settings import SweepSettings

SWEEP = """
# as one would write it
method: [gdiff, npo+ngdiff]
lr: [1e-3, 3e-4]
auto-lr: both
option: {beta: [0.1, 0.2]}
trials: 5
epochs: 2
limit: 40
metrics: [verbmem, utility]
gradient_checkpointing: true
objectives: "verbmem:min,utility:max"
constraint:
  - utility>=70%
scheduler: none
time-budget:
"""


def settings_of(*words: str, command: click.Command = pareto) -> SweepSettings:
    """What the words come to, without running anything."""
    assert command.name is not None
    with command.make_context(command.name, [*words]) as context:
        line = shlex.join(["python", "-m", "sweeper", command.name, *typed(words)])
        return (lr_study_settings if command is lr_study else sweep_settings)(context.params, command=line)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.fixture
def file() -> Path:
    path = Path("sweep.yaml")
    path.write_text(SWEEP)
    return path


def test_a_file_says_what_options_would(file: Path) -> None:
    words = [
        *("--method", "gdiff", "--method", "npo+ngdiff", "--lr", "1e-3", "--lr", "3e-4", "--auto-lr", "both"),
        *("--option", "beta=0.1", "--option", "beta=0.2", "--trials", "5", "--epochs", "2", "--limit", "40"),
        *("--metrics", "verbmem,utility", "--gradient-checkpointing", "--objectives", "verbmem:min,utility:max"),
        *("--constraint", "utility>=70%", "--scheduler", "none"),
    ]
    of_file, of_words = settings_of("--config", str(file)), settings_of(*words)
    assert replace(of_file, command="") == replace(of_words, command="")


def test_what_is_typed_wins(file: Path) -> None:
    settings = settings_of("--trials", "7", "--config", str(file), "--lr", "1e-2", "--auto-lr", "off")
    assert (settings.trials, settings.base.lr, settings.base.epochs) == (7, 1e-2, 2)
    assert settings.base.auto_lr == "off"


def test_the_command_on_record_needs_no_file(file: Path) -> None:
    settings = settings_of("--config", str(file), "--trials", "7")
    assert "--config" not in settings.command
    again = settings_of(*shlex.split(settings.command)[4:])
    assert replace(again, command="") == replace(settings, command="")
    assert settings_of(f"--config={file}", "--trials", "7").command == settings.command


def test_the_command_line_of_the_process_is_recorded_so_too(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["sweeper", "pareto", "--config", str(file), "--trials", "7"])
    with pareto.make_context("pareto", ["--config", str(file), "--trials", "7"]):
        words = shlex.split(command_line())
    assert words[:6] == ["python", "-m", "sweeper", "pareto", "--trials", "7"]
    assert words.count("--trials") == 1
    assert "--config" not in words


def test_from_python_it_is_an_option_like_others(file: Path) -> None:
    with options_of(pareto, {"config": file, "trials": 7}) as (given, line):
        assert (given["trials"], given["epochs"], given["limit"]) == (7, 2, 40)
        assert "--config" not in line


def test_everything_wrong_with_a_file_is_told_at_once() -> None:
    Path("bad.yaml").write_text(
        "trails: 3\nepochs: two\nseed: [1, 2]\ngradient-checkpointing: maybe\nzzz: 1\nlr: 0.1\nlr: 0.2\n"
        "option: {beta: {deep: 1}}\nmethod: ngdif\n"
    )
    done = run("pareto", "--config", "bad.yaml")
    assert done.exit_code == 2
    for told in (
        "line 1: unknown option 'trails': did you mean 'trials'?",
        "--epochs must be a whole number, got 'two'",
        "line 3: seed takes one value, got 1, 2",
        "line 4: gradient-checkpointing must be true or false, got maybe",
        "line 5: unknown option 'zzz': see 'python -m sweeper pareto --help'",
        "line 7: lr is given twice",
        "line 8: option is nested too deeply",
        "unknown method 'ngdif': did you mean 'ngdiff'?",
    ):
        assert told in done.output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file or directory; expected a YAML file"),
        ("trials: [1\n", "line 2: "),
        ("- trials\n", "expected one option a line"),
        ("json: true\n", "unknown option 'json'"),
    ],
)
@pytest.mark.parametrize("command", ["pareto", "lr-study", "unlearn"])
def test_a_file_that_cannot_be_read_is_told(command: str, text: str | None, told: str) -> None:
    if text is not None:
        Path("bad.yaml").write_text(text)
    done = run(command, "--config", "bad.yaml", "--method", "nothing")
    assert done.exit_code == 2
    assert told in done.output
    assert "unknown method 'nothing'" in done.output


def test_one_run_takes_its_options_from_a_file_too() -> None:
    Path("run.yaml").write_text("method: npo+ngdiff\nlr: 2e-4\noption:\n  beta: 0.2\nepochs: 3\n")
    with unlearn.make_context("unlearn", ["--config", "run.yaml", "--epochs", "4"]) as context:
        spec = single_spec(context.params)
    assert (spec.method, spec.lr, spec.option_values["beta"], spec.epochs) == ("npo+ngdiff", 2e-4, 0.2, 4)


def test_the_pages_file_has_no_unknown_key() -> None:
    page = (Path(__file__).parents[3] / "docs" / "config.md").read_text(encoding="utf-8")
    Path("page.yaml").write_text(re.findall(r"^```yaml\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)[0])
    with pareto.make_context("pareto", ["--config", "page.yaml"]) as context:
        assert context.meta["sweeper.problems"] == []
        assert (context.params["trials"], context.params["metrics"]) == (64, ("default", "worst_answer"))


def test_an_empty_file_says_nothing() -> None:
    Path("empty.yaml").write_text("# nothing yet\n")
    assert replace(settings_of("--config", "empty.yaml"), command="") == replace(settings_of(), command="")


# The file of a sweep ---------------------------------------------------------------------------------------------


def reproduced(settings: SweepSettings, command: click.Command) -> SweepSettings:
    begin(settings, Path("begun"))
    Path("again.yaml").write_text(config_text(Path("begun"), read_settings(Path("begun"))))
    return settings_of("--config", "again.yaml", command=command)


def test_a_sweep_is_reproduced_by_the_file_that_config_writes(file: Path) -> None:
    settings = settings_of("--config", str(file), "--tracking-uri", "sqlite:///other.db", "--time-budget", "60")
    assert replace(reproduced(settings, pareto), command="") == replace(settings, command="")


def test_a_study_is_too() -> None:
    settings = settings_of(
        "--method", "ngdiff", "--seeds", "3", "--auto-lr-probe", "same", "--extend", command=lr_study
    )
    assert replace(reproduced(settings, lr_study), command="") == replace(settings, command="")


def test_trials_that_resume_added_are_in_it_and_places_are_absolute() -> None:
    Path("mine.yaml").write_text("method: gdiff\n")
    settings = settings_of("--space", "mine.yaml", "--trials", "4")
    begin(replace(settings, trials=9, until="plateau:5:0.01"), Path("begun"))
    text = config_text(Path("begun"), read_settings(Path("begun")))
    assert text.startswith("# python -m sweeper pareto --config THIS_FILE\n")
    assert "trials: 9\n" in text
    assert f"space: {os.getcwd()}/mine.yaml\n" in text
    assert 'until: "plateau:5:0.01"\n' in text


def test_where_a_sweep_runs_and_keeps_things_is_as_it_is_now() -> None:
    typed_here = ("--storage", "states", "--tracking-uri", "sqlite:///here.db", "--trials", "4")
    begin(settings_of(*typed_here), Path("begun"))
    text = config_text(Path("begun"), read_settings(Path("begun")))
    assert f"storage: {os.getcwd()}/states\n" in text
    assert f"{os.getcwd()}/here.db" in text
    assert "address" not in text
    assert "ship" not in text
    moved = replace(read_settings(Path("begun")), address="10.0.0.1:6379", ship=False, storage=None)
    text = config_text(Path("begun"), moved)
    assert 'address: "10.0.0.1:6379"\n' in text
    assert "no-ship: true\n" in text
    assert "storage" not in text


def test_a_space_that_is_visited_whole_is_so_again() -> None:
    begin(settings_of("--method", "ngdiff", "--lr", "1e-4", "--lr", "1e-3"), Path("begun"))
    Path("again.yaml").write_text(config_text(Path("begun"), read_settings(Path("begun"))))
    again = settings_of("--config", "again.yaml")
    assert (again.sampler, again.trials) == ("grid", 2)


def test_the_command_prints_it_or_writes_it_to_a_new_file() -> None:
    begin(settings_of("--method", "ngdiff", "--trials", "3"), Path("begun"))
    printed = run("config", "begun").output
    assert "method:\n  - ngdiff\n" in printed
    assert run("config", "begun", "--out", "new.yaml").output == "new.yaml\n"
    assert Path("new.yaml").read_text() == printed
    again = run("config", "begun", "--out", "new.yaml")
    assert (again.exit_code, "is there already" in again.output) == (2, True)
    nothing = run("config", "nowhere")
    assert (nothing.exit_code, "holds no sweep" in nothing.output) == (2, True)


# Help ------------------------------------------------------------------------------------------------------------


def test_every_command_has_an_example_in_its_help() -> None:
    assert set(EXAMPLES) == set(main.commands)
    for name, lines in EXAMPLES.items():
        shown = run(name, "--help").output
        assert all(f"  python -m sweeper {line}\n" in shown for line in lines)


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_every_example_is_read_without_a_complaint(line: str) -> None:
    Path("sweep.yaml").write_text("method: gdiff\n")
    name, *words = shlex.split(line)
    with main.commands[name].make_context(name, words) as context:
        assert context.meta.get("sweeper.problems", []) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands_and_options(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = CliRunner().invoke(main, prog_name="sweeper", env={"_SWEEPER_COMPLETE": f"{shell}_source"})
    assert "_SWEEPER_COMPLETE" in done.output
    if shell == "bash":
        asked = {"_SWEEPER_COMPLETE": "bash_complete", "COMP_WORDS": "sweeper lr-study --auto-lr-st", "COMP_CWORD": "2"}
        found = CliRunner().invoke(main, prog_name="sweeper", env=asked).output
        assert {line.partition(",")[2] for line in found.splitlines()} == {"--auto-lr-start", "--auto-lr-start-lr"}


def test_sweep_json_names_the_plugins_even_where_there_are_none() -> None:
    begin(settings_of(), Path("begun"))
    assert json.loads(Path("begun/sweep.json").read_text())["plugins"] == []
