"""A sweep's folder: created once, locked by one driver, and resumed. Tests of real sweeps are in tests/e2e."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from rich.console import Console

from search_spaces.common.durable import exclusive
from sweeper.controller import FULL_DISK
from sweeper.driver.open_sweep import open_sweep
from sweeper.driver.tune_run import run_config
from sweeper.execution.placement import PlacementError
from sweeper.search.limits import End
from sweeper.store.folder import Origin, SweepError, UsageError, begin, discard, read_settings, write_sweep_json
from sweeper.store.version import __version__, commit
from sweeper.sweep import _run_to_end, run
from tests.sweeper.conftest import SETTINGS as ANY
from tests.sweeper.conftest import TARGET, bare_sweep
from trainables.scoring.base import RetainValues
from trainables.spec import TrialSpec
from trainables.target.target import Target

SETTINGS = replace(ANY, tracking_uri="http://127.0.0.1:9")
CONSOLE = Console(quiet=True)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    begin(SETTINGS, tmp_path / "out")
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def _no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace Ray by a cluster with room for two trials."""
    monkeypatch.setattr("sweeper.execution.cluster.ray_cluster", lambda address, **given: nullcontext(2))
    monkeypatch.setattr("sweeper.execution.cluster.is_possible", lambda: False)
    monkeypatch.setattr("sweeper.execution.cluster.require_shared", lambda shared: None)
    monkeypatch.setattr("sweeper.execution.cluster._import_in_parallel", nullcontext)
    monkeypatch.setattr("sweeper.sweep.target_process", lambda spec, **given: nullcontext())


def use_target(
    monkeypatch: pytest.MonkeyPatch, prepare: Callable[..., Target], *, trained_key: str = "nowhere"
) -> None:
    """Let the driver get its target from ``prepare``."""
    monkeypatch.setattr("sweeper.execution.target_task.prepare_with_progress", prepare)
    monkeypatch.setattr("sweeper.sweep.target_spec_of", lambda spec: SimpleNamespace(trained_key=trained_key))


def not_made(spec: TrialSpec, **given: object) -> Target:
    raise AssertionError("the target was made")


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target exist, and raise SweepError where trials would begin."""
    use_target(monkeypatch, lambda spec, **given: TARGET)
    monkeypatch.setattr("sweeper.sweep.open_sweep", Mock(side_effect=SweepError("reached Ray")))


def run_to_ray(out: Path) -> None:
    with pytest.raises(SweepError, match="reached Ray"):
        run(out, console=CONSOLE)


def description(out: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((out / "sweep.json").read_text())
    return content


def test_a_sweep_can_be_resumed_from_its_first_moment_and_nothing_is_overwritten(out: Path) -> None:
    assert read_settings(out) == SETTINGS
    content = description(out)
    assert (content["format"], content["baseline"], content["command"]) == (2, None, "python -m sweeper pareto")
    assert {"torch", "ray", "optuna", "mlflow"} <= set(content["versions"])
    assert (content["versions"]["unlearning-sweeper"], content["commit"]) == (__version__, commit())
    # Two commands started in the same second have the same default folder.
    with pytest.raises((UsageError, FileExistsError)):
        begin(replace(SETTINGS, name="another"), out)
    assert description(out) == content


def test_a_sweep_is_in_its_bucket_as_soon_as_it_is_open(tmp_path: Path) -> None:
    """A sweep whose driver is killed before the first report can be resumed from the bucket."""
    out = tmp_path / "out"
    begin(replace(SETTINGS, storage=(tmp_path / "bucket").as_uri()), out)
    settings = read_settings(out)
    sweep = open_sweep(out, settings, {0: TARGET}, sweep_id="an id", console=CONSOLE)
    assert sweep.syncer is not None
    assert settings.bucket is not None
    try:
        sweep.syncer.finish_transfers()
        assert settings.bucket.read("sweep.json") == (out / "sweep.json").read_bytes()
    finally:
        sweep.tracker.close(timeout=0.0)
        sweep.syncer.close(timeout=60.0)


@pytest.mark.parametrize(
    ("part", "replacement", "named"),
    [
        ('"format"', "torn", ""),
        ('"trials": 3', '"trails": 3', "trails"),
        ('"base"', '"basis"', "base"),
        ('"format": 2', '"format": 999', "999"),
    ],
)
def test_a_sweep_json_that_cannot_be_used_is_named(out: Path, part: str, replacement: str, named: str) -> None:
    path = out / "sweep.json"
    text = path.read_text()
    assert part in text
    path.write_text(text.replace(part, replacement))
    with pytest.raises(UsageError) as caught:
        read_settings(out)
    assert str(path) in str(caught.value)
    assert named in str(caught.value)


def test_a_sweep_with_a_choice_that_no_longer_exists_is_not_resumed(tmp_path: Path) -> None:
    begin(replace(SETTINGS, base=replace(SETTINGS.base, auto_lr="gone")), tmp_path / "old")
    with pytest.raises(UsageError, match=r"auto_lr 'gone': .*off, gen, gen-clip"):
        run(tmp_path / "old", console=CONSOLE)


@pytest.mark.usefixtures("target")
def test_a_sweep_is_not_resumed_on_another_model_or_other_data(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    created = description(out)["created"]
    run_to_ray(out)
    before = (out / "sweep.json").read_bytes()
    assert (description(out)["created"], description(out)["target"]["key"]) == (created, "key")
    assert description(out)["baseline"] == {"forget_loss": 0.1, "retain_loss": 0.2, "utility": None}
    assert read_settings(out) == SETTINGS
    use_target(monkeypatch, lambda spec, **given: replace(TARGET, key="changed"))
    with pytest.raises(UsageError, match="model"):
        run(out, console=CONSOLE)
    use_target(monkeypatch, not_made, trained_key="another")  # no target is trained to detect the change
    with pytest.raises(UsageError, match="model"):
        run(out, console=CONSOLE)
    assert (out / "sweep.json").read_bytes() == before


@pytest.mark.usefixtures("target")
def test_a_running_sweep_has_one_driver(out: Path) -> None:
    with exclusive(out, RuntimeError()), pytest.raises(UsageError, match="running"):
        run(out, console=CONSOLE)


@pytest.mark.usefixtures("target")
def test_a_cluster_is_reached_before_the_target_is_made_and_only_if_trials_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster of a finished sweep may be gone; its report can still be written."""
    out = tmp_path / "begun"
    begin(replace(SETTINGS, address="127.0.0.1:9"), out)
    with monkeypatch.context() as patch:
        patch.setattr("sweeper.execution.target_task.prepare_with_progress", not_made)
        with pytest.raises(PlacementError, match=r"127\.0\.0\.1:9"):
            run(out, console=CONSOLE)
    write_sweep_json(out, read_settings(out), Origin("0", "2026-01-01"), targets={0: TARGET})
    run_to_ray(out)


def test_the_answers_of_the_target_and_of_the_model_that_never_saw_the_forget_set_are_stored(out: Path) -> None:
    own, never = ({"eval_log.json": {"generated_text": {"0": ["Q", text, "yes"]}}} for text in ("yes", "no"))
    nothing = {"log_truth_ratios": (), "forget_log_probs": (), "holdout_log_probs": (), "min_k_auc": None}
    retain = RetainValues(key="r", path="", **nothing, answers=never)
    write_sweep_json(
        out, read_settings(out), Origin("0", "2026-01-01"), targets={0: replace(TARGET, answers=own, retain=retain)}
    )
    stored = {path.name: json.loads(path.read_text()) for path in (out / "items").iterdir()}
    assert stored == {f"target-{TARGET.key}.json": own, f"never-saw-{TARGET.key}.json": never}


def test_a_sweep_that_could_not_begin_leaves_its_folder_free_and_one_with_trials_stays(out: Path) -> None:
    (out / "events.jsonl").touch()
    discard(out)
    assert (out / "sweep.json").is_file()
    (out / "events.jsonl").unlink()
    discard(out)
    assert not out.exists()


@pytest.mark.parametrize(("failure", "starts"), [(None, 1), (FULL_DISK, 0)])
def test_without_trials_ray_starts_only_to_measure_the_frontier(
    out: Path, monkeypatch: pytest.MonkeyPatch, failure: End | None, starts: int
) -> None:
    for name in ("watch_head", "measure_frontier"):
        monkeypatch.setattr(f"sweeper.sweep.{name}", Mock(return_value=nullcontext()))
    monkeypatch.setattr("sweeper.sweep.unmeasured_models", lambda *_: ["an epoch"])
    sweep, cluster = bare_sweep(out, replace(SETTINGS, trials=0)), Mock()
    sweep.controller.failure = failure
    _run_to_end(sweep, cluster, Mock())
    assert cluster.slots.call_count == starts


def test_tune_saves_no_state_of_a_trial_that_has_ended(out: Path) -> None:
    """Tune's default would save the weights and the optimizer's state, which are gigabytes for a large model."""
    found = run_config(bare_sweep(out))
    assert (found.checkpoint_config.checkpoint_at_end, found.checkpoint_config.num_to_keep) == (False, 1)


@pytest.mark.parametrize("stored_key", ["with", "without", "other"])
def test_an_attack_may_add_a_retain_model_to_a_sweep_that_started_without_one(
    out: Path, monkeypatch: pytest.MonkeyPatch, stored_key: str
) -> None:
    made = replace(TARGET, key="with", key_without_retain="without")
    use_target(monkeypatch, lambda spec, **given: made, trained_key="folder")
    opened = Mock(side_effect=SweepError("reached Ray"))
    monkeypatch.setattr("sweeper.sweep.open_sweep", opened)
    stored = replace(TARGET, key=stored_key, path="cache/folder")
    write_sweep_json(out, read_settings(out), Origin("0", "2026-01-01"), targets={0: stored})
    if stored_key == "other":
        with pytest.raises(UsageError, match="changed after the sweep started"):
            run(out, console=CONSOLE)
        return
    run_to_ray(out)
    _, _, targets = opened.call_args.args
    assert [target.key for target in targets.values()] == [stored_key], "new trials continue the stored ones"
