"""The retain model: trained once on the retain set alone, resumed after a kill, its values cached by content."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from scipy.stats import ks_2samp
from transformers import PhiForCausalLM

import trainables.target.training_state
from search_spaces.durable import Throttle
from trainables.data.errors import DataError
from trainables.data.examples import UnlearningData
from trainables.models.checkpoints import load_model, load_tokenizer, save_model
from trainables.models.registry import TargetRecipe
from trainables.scoring.evaluator import Evaluator
from trainables.spec import TrialSpec
from trainables.target.finetune import Progress, TargetError
from trainables.target.prepare import prepare_target
from trainables.target.target import Target

RECIPE = TargetRecipe(lr=1e-3, batch_size=4, epochs=3, stop_when_memorised=False)
Prepare = Callable[..., tuple[Target, list[Progress]]]


@pytest.fixture
def prepare(
    tmp_path: Path,
    tiny_data: UnlearningData,
    make_network: Callable[..., PhiForCausalLM],
    tokenizer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> Prepare:
    """``prepare_target`` from one random base model, in a cache of its own; also says which epochs were trained."""
    monkeypatch.setattr("trainables.target.problem.load_data", lambda *arguments, **named: tiny_data)
    save_model(make_network(seed=4), tokenizer, tmp_path / "base")
    spec = TrialSpec(
        model="my-model", model_path=str(tmp_path / "base"), max_length=64, metrics=("default", "forget_quality")
    )

    def run(
        cache: str = "cache", on_progress: Callable[[Progress], None] | None = None, **changes: Any
    ) -> tuple[Target, list[Progress]]:
        seen: list[Progress] = []

        def note(progress: Progress) -> None:
            seen.append(progress)
            if on_progress is not None:
                on_progress(progress)

        target = prepare_target(
            replace(spec, **changes), recipe=RECIPE, device="cpu", cache=tmp_path / cache, on_progress=note
        )
        return target, seen

    return run


def _retain_path(target: Target) -> Path:
    assert target.retain is not None
    return Path(target.retain.path)


def _weights(folder: Path) -> list[torch.Tensor]:
    return list(load_model(folder).state_dict().values())


def test_the_second_time_nothing_is_computed(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    first, seen = prepare()
    assert sum("retain model" in item.text for item in seen) == 3
    for name in ("measure", "reference", "losses"):
        monkeypatch.setattr(Evaluator, name, None)
    again, seen = prepare()
    assert again == first
    assert seen == []


def test_what_is_found_in_the_cache_counts_as_used(prepare: Prepare) -> None:
    """Or pruning would remove a note or the retain model of a sweep of today."""
    first, _ = prepare()
    cache = Path(first.path).parents[1]
    notes = [*cache.glob("baselines/*.json"), *cache.glob("retain-values/*.json")]
    kept = [*notes, Path(first.path) / "target.json", _retain_path(first) / "target.json"]
    assert len(notes) >= 2
    for path in kept:
        os.utime(path, (1e9, 1e9))
    assert prepare()[0] == first
    assert {path.name: path.stat().st_mtime > 1e9 for path in kept} == {path.name: True for path in kept}


def test_it_takes_as_many_epochs_on_the_retain_set_alone(prepare: Prepare, tiny_data: UnlearningData) -> None:
    _, seen = prepare()
    steps = [item.total for item in seen if "retain model" in item.text]
    assert steps == [3 * len(tiny_data.retain) // 4] * 3
    assert seen[-1].total == 3 * len(tiny_data.full) // 4


def test_forget_quality_of_the_target_is_scipys_test_against_it(prepare: Prepare, tiny_data: UnlearningData) -> None:
    target, _ = prepare()
    ratios = []
    for folder in (Path(target.path), _retain_path(target)):
        evaluator = Evaluator(
            tiny_data, load_tokenizer(folder), vocabulary_size=9, max_length=64, batch_size=3, device="cpu"
        )
        ratios.append(evaluator.scores(load_model(folder)).choices["forget"].truth_ratios)
    assert target.baseline["forget_quality"] == pytest.approx(ks_2samp(*ratios).pvalue, rel=1e-9)


def test_a_killed_training_goes_on_to_the_same_weights(prepare: Prepare, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, _ = prepare("whole")
    save = trainables.target.training_state.TrainingState.save

    def at_once(state: Any, *arguments: Any, **named: Any) -> None:
        state.throttle = Throttle(share=math.inf)
        save(state, *arguments, **named)

    monkeypatch.setattr(trainables.target.training_state.TrainingState, "save", at_once)

    def kill(progress: Progress) -> None:
        if progress.text.startswith("retain model") and "epoch 3" in progress.text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare("killed", on_progress=kill)
    resumed, seen = prepare("killed")
    assert ["epoch 3" in item.text for item in seen if "retain model" in item.text] == [True]
    pairs = zip(_weights(_retain_path(whole)), _weights(_retain_path(resumed)), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)
    assert resumed.retain is not None
    assert whole.retain is not None
    assert resumed.retain.log_truth_ratios == whole.retain.log_truth_ratios
    assert not list(_retain_path(resumed).parent.parent.glob("unfinished/*.pt"))


def test_the_retain_model_is_part_of_what_a_trial_hashes(prepare: Prepare) -> None:
    with_it, _ = prepare()
    without, _ = prepare(metrics=())
    assert with_it.key != without.key
    assert (without.retain, without.path) == (None, with_it.path)


def test_a_given_retain_model_is_used_as_it_is(
    prepare: Prepare, known_network: PhiForCausalLM, tokenizer: Any, tmp_path: Path
) -> None:
    save_model(known_network, tokenizer, tmp_path / "mine")
    target, seen = prepare(retain_path=str(tmp_path / "mine"))
    assert _retain_path(target) == tmp_path / "mine"
    assert not any("retain model" in item.text for item in seen)


def test_beside_a_finished_target_it_cannot_be_trained(
    prepare: Prepare, known_network: PhiForCausalLM, tokenizer: Any, tmp_path: Path
) -> None:
    save_model(known_network, tokenizer, tmp_path / "mine")
    with pytest.raises((TargetError, DataError), match="retain model"):
        prepare(model_path=None, target_path=str(tmp_path / "mine"))
