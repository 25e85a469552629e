"""The command ``merge``: what is refused before work, and the event that a merge adds to the sweep."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest

from sweeper.checks.merging import planned_merge
from sweeper.settings.options import MergeOptions
from sweeper.settings.reading import read
from sweeper.settings.sources import from_python
from sweeper.store.event_log import EventLog
from sweeper.store.events import Merge, Phase, TrialEnded, TrialProposed
from tests.sweeper.cli.conftest import invoke, refused
from trainables.run.reports import Outcome, Status


@pytest.fixture
def stored(golden: Path, tmp_path: Path) -> Path:
    """A finished sweep whose trials 00000 and 00016 have stored models, of which only the names of the files matter."""
    content = json.loads((golden / "sweep.json").read_text())
    target = tmp_path / "target"
    target.mkdir()
    content |= {"sweep_id": "0", "created": "", "target": {"key": content["target"]["key"], "path": str(target)}}
    content["settings"] |= {"kind": "pareto"}
    (golden / "sweep.json").write_text(json.dumps(content))
    for name in ("00000", "00016"):
        folder = golden / "checkpoints" / name
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    return golden


def test_lora_and_full_models_are_refused_and_both_are_named(stored: Path) -> None:
    adapter = stored / "checkpoints" / "00016"
    (adapter / "config.json").rename(adapter / "adapter_config.json")
    (message,) = refused("merge", stored, "--trial", "00000", "--trial", "00016")
    assert "trial 00016 trained a LoRA adapter" in message
    assert "trial 00000 trained all weights" in message


def test_a_finetuned_model_of_another_kind_is_refused_too(stored: Path) -> None:
    Path("finetuned").mkdir()
    Path("finetuned/adapter_config.json").write_text("{}")
    (message,) = refused("merge", stored, "--trial", "00000", "--finetuned", "finetuned")
    assert "finetuned trained a LoRA adapter, and trial 00000 trained all weights" in message


def test_fewer_than_two_trials_are_refused_but_one_negated_model_is_not(stored: Path) -> None:
    (message,) = refused("merge", stored, "--trial", "00000")
    assert "at least two trials" in message
    (message,) = refused("merge", stored, "--trial", "00000", "--trial", "00000")
    assert "at least two trials" in message
    Path("finetuned").mkdir()
    Path("finetuned/config.json").write_text("{}")
    options, _ = read(MergeOptions, from_python(MergeOptions, {"finetuned": ["finetuned"]}))
    merge, problems = planned_merge(options, stored)
    assert (merge.trials, merge.finetuned, problems) == ((), (str(Path("finetuned").resolve()),), [])


def test_trials_that_unlearn_another_target_than_the_first_are_refused(stored: Path) -> None:
    path = stored / "sweep.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"target": content["target"] | {"key": "another"}}))
    (message,) = refused("merge", stored)
    assert "the trials 00000, 00016 unlearn another target" in message


def test_all_problems_are_reported_together(stored: Path) -> None:
    arguments = ("--rule", "negmreg", "--trial", "00099", "--finetuned", "nowhere", "--checkpoint", "start")
    found = "\n".join(refused("merge", stored, *arguments))
    for words in (
        "did you mean 'negmerge'",
        "--trial 00099: no finished trial with a stored last model",
        "nowhere: no",
        "start: no model",
    ):
        assert words in found, words


def test_a_merged_model_is_not_merged_again_by_default(stored: Path) -> None:
    path = stored / "trials.csv"
    rows = pd.read_csv(path, dtype=str).assign(phase="search")
    rows.loc[rows["trial_id"] == "00016", "phase"] = "merge"
    rows.to_csv(path, index=False)
    (message,) = refused("merge", stored)
    assert "at least two trials" in message


def test_models_in_a_bucket_need_no_local_folders(stored: Path) -> None:
    """Only the models on the frontier are downloaded, but all finished trials are merged."""
    path = stored / "sweep.json"
    content = json.loads(path.read_text())
    content["settings"] |= {"storage": "s3://bucket/sweeps"}
    path.write_text(json.dumps(content))
    shutil.rmtree(stored / "checkpoints" / "00016")
    options, _ = read(MergeOptions, {})
    merge, _ = planned_merge(options, stored)
    assert {"00000", "00016"} <= set(merge.trials)


def test_a_learning_rate_study_is_refused(stored: Path) -> None:
    path = stored / "sweep.json"
    content = json.loads(path.read_text())
    content["settings"] |= {"kind": "lr-study"}
    path.write_text(json.dumps(content))
    (message,) = refused("merge", stored)
    assert "is a learning-rate study" in message


def test_a_folder_without_a_sweep_is_refused(tmp_path: Path) -> None:
    assert invoke("merge", tmp_path).exit_code == 2


@pytest.mark.parametrize(("error", "code"), [(None, 0), ("LoadError: the tensor w differs", 1)])
def test_the_sweep_continues_without_search_and_the_command_fails_if_the_merge_fails(
    stored: Path, monkeypatch: pytest.MonkeyPatch, error: str | None, code: int
) -> None:
    merge = Merge("mean", ("00000", "00016"), 1.5)

    def merged(out: Path, **options: object) -> None:
        log = EventLog(out / "events.jsonl")
        log.record(TrialProposed("merged-000", {"method": "mean"}, phase=Phase.MERGE, merge=merge))
        status = Status.FAILED if error else Status.FINISHED
        log.record(TrialEnded("merged-000", Outcome(status=status, error=error)))

    run = Mock(side_effect=merged)
    monkeypatch.setattr("sweeper.cli.merge.run_to_the_end", run)
    result = invoke("merge", stored, "--rule", "mean", "--scale", 1.5, "--json")
    assert result.exit_code == code, result.output
    assert (error or "") in result.output
    assert run.call_args.kwargs == {"as_json": True, "search": False, "merge": merge}
