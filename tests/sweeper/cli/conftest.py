"""Commands in an empty folder, on a small data set, up to the point at which work would start."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import optuna
import pytest
from click.testing import CliRunner, Result

from sweeper.checks.world import resolve_and_check
from sweeper.cli.main import main
from sweeper.cli.options import given_values
from sweeper.driver.finalize import Summary
from sweeper.settings.options import COMMANDS
from sweeper.settings.resolve import Resolved
from sweeper.store.columns import PARAMETERS
from sweeper.store.event_log import FILE as EVENTS
from sweeper.store.event_log import EventLog
from sweeper.store.events import TrialEnded, TrialProposed, TrialReported
from sweeper.store.folder import read_settings
from sweeper.store.tables import ResultTables
from tests.sweeper.conftest import epoch_report, outcome
from trainables.spec import TrialSpec

Command = Callable[..., Result]
"""A command of the fixtures below, called with further arguments."""
Accepted = Callable[..., list[TrialSpec]]
SPLITS = ("forget01", "retain99", "holdout01")
PERTURBED = ("forget01_perturbed", "retain_perturbed", "real_authors_perturbed", "world_facts_perturbed")


def summary_of(out: Path, **given: Any) -> Summary:
    """Return the summary of a sweep of three finished trials, two of them on the frontier, changed by ``given``."""
    values: dict[str, Any] = {"trials": 3, "asked": 3, "status": {"finished": 3}, "hypervolume": 0.5, "front": 2}
    values |= {"tracking": "", "answer": None, "front_trials": 2, "reused": 0, "ended_because": None}
    return Summary(out=str(out), **{**values, "further": "", "run_again": 0, "unmeasured": 0, **given})


@pytest.fixture(autouse=True)
def _workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every command runs in an empty folder with its own cache."""
    before = dict(os.environ)
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    for work in (
        "sweeper.sweep.run",
        "sweeper.single_run.run_once",
        "sweeper.execution.target_task.prepare_with_progress",
    ):
        monkeypatch.setattr(work, Mock(side_effect=AssertionError("the command was not refused")))
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """TOFU's files with two authors to keep and one to forget."""
    folder = tmp_path / "tofu"
    folder.mkdir()
    for name in (*SPLITS, *PERTURBED):
        count = 40 if name == "retain99" else 20
        rows = [{"question": f"{name}: question {i}?", "answer": f"Answer {i}."} for i in range(count)]
        more = {"paraphrased_answer": "It is so.", "perturbed_answer": ["No.", "Never."]} if name in PERTURBED else {}
        (folder / f"{name}.json").write_text("".join(json.dumps(row | more) + "\n" for row in rows))
    return folder


@pytest.fixture
def model_folder(tmp_path: Path) -> Path:
    """A folder that passes the checks of a model folder, but cannot be loaded."""
    folder = tmp_path / "my-model"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return folder


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def resolved(command: str, *words: object) -> Resolved[Any]:
    with main.commands[command].make_context(command, [str(word) for word in words]) as context:
        options_type = COMMANDS[command]
        raw, problems = given_values(options_type, context.params.get("config"))
    return resolve_and_check(options_type, raw, problems)


def json_of(*arguments: object) -> Any:
    """Return the JSON that a successful command prints."""
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def record_trial(out: Path, row: Mapping[str, Any], *, epochs: int = 0) -> None:
    """Record an ended trial with a report after each epoch in the event log and the tables of a sweep."""
    log, tables, trial_id = EventLog(out / EVENTS), ResultTables(out), str(row["trial_id"])
    reports = [epoch_report(epoch) for epoch in range(1, epochs + 1)]
    log.record(TrialProposed(trial_id, {name: row[name] for name in PARAMETERS if name in row}))
    for report in reports:
        log.record(TrialReported(trial_id, report))
    values = {name: value for name, value in row.items() if name not in ("trial_id", "spec_hash", *PARAMETERS)}
    log.record(TrialEnded(trial_id, outcome(**values)))
    tables.history.append({"trial_id": trial_id, **report.row()} for report in reports)
    tables.trials.append([row])


def problems_of(result: Result) -> list[str]:
    """Return the problems that a refused command listed. Checks the exit code, the streams and the form."""
    assert result.exit_code == 2, f"exit code {result.exit_code}: {result.output}"
    assert isinstance(result.exception, SystemExit), "not a traceback"
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines
    assert all(line.startswith("error: ") for line in lines), result.stderr
    assert len(set(lines)) == len(lines), f"listed twice: {result.stderr}"
    return [line.removeprefix("error: ") for line in lines]


def refused(*arguments: object) -> list[str]:
    return problems_of(invoke(*arguments))


def names(problem: str, words: Iterable[str]) -> bool:
    """Return True if a message contains each of the words as a whole word, and fail otherwise."""
    missing = [word for word in words if not re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", problem)]
    assert not missing, f"{missing} not named in: {problem}"
    return True


def tofu(data: Path) -> tuple[str | Path, ...]:
    """Return the options of the small model and data set."""
    return ("--model", "tiny-phi", "--dataset", "tofu", "--data-dir", data, "--forget-split", "forget01")


@pytest.fixture
def pareto(data: Path, out: Path) -> Command:
    """``pareto`` on the small data set, in a new output folder, with more arguments."""

    def command(*arguments: str | Path, out: Path = out) -> Result:
        return invoke("pareto", *tofu(data), "--out", out, "--tracking-uri", f"sqlite:///{out}.db", *arguments)

    return command


@pytest.fixture
def unlearn(data: Path, out: Path) -> Command:
    return lambda *arguments: invoke("unlearn", *tofu(data), "--out", out, *arguments)


@pytest.fixture
def planned_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweeper.cli.sweeps.run_to_the_end", lambda out, as_json, changes=None: None)


@pytest.fixture
def accepted(pareto: Command, out: Path, planned_only: None) -> Accepted:
    """Return the specs of a random search in the space of a sweep with these arguments, by the settings it wrote."""

    def command(*arguments: str | Path) -> list[TrialSpec]:
        result = pareto(*arguments)
        assert result.exit_code == 0, result.output
        settings = read_settings(out)
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        return [settings.make_spec(settings.space.suggest(study.ask()), target_key="") for _ in range(40)]

    return command
