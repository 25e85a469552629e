"""The retain model is trained once on the retain set alone, continues after a kill, and its values are cached."""

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

import trainables.models.tiny
import trainables.target.training
from search_spaces.common.durable import Throttle
from tests.trainables.runs import same_bits
from tests.trainables.target.conftest import SPEC, Preparation
from trainables.data.errors import DataError
from trainables.data.examples import UnlearningData
from trainables.metrics.registry import METRICS
from trainables.models.checkpoints import load_model, load_tokenizer, save_model
from trainables.scoring.language import Evaluator
from trainables.target.cache import TargetError
from trainables.target.target import Target
from trainables.target.training import Progress
from trainables.text.scorer import TextScorer

Train = Callable[..., Target]
WITH_RETAIN = replace(SPEC, target_batch_size=4, target_epochs=3, metrics=("default", "forget_quality"))


@pytest.fixture
def train(prepare: Preparation) -> Train:
    """Return a function that prepares a target and its retain model. ``changes`` are changes of the spec."""

    def run(on_progress: Callable[[Progress], None] | None = None, **changes: Any) -> Target:
        reported = {} if on_progress is None else {"on_progress": on_progress}
        return prepare(replace(WITH_RETAIN, **changes), **reported)

    return run


def _retain_path(target: Target) -> Path:
    assert target.retain is not None
    return Path(target.retain.path)


def _weights(folder: Path) -> list[torch.Tensor]:
    return list(load_model(folder).state_dict().values())


def test_the_retain_model_is_trained_once_on_the_retain_set_alone_and_used_from_the_cache(
    prepare: Preparation, train: Train, tiny_data: UnlearningData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cached files count as used, because pruning would remove a note or the retain model of a current sweep."""
    first = train()
    assert [item.total for item in prepare.seen if "retain model" in item.text] == [3 * len(tiny_data.retain) // 4] * 3
    assert prepare.seen[-1].total == 3 * len(tiny_data.full) // 4
    notes = [*prepare.cache.glob("baselines/*.json"), *prepare.cache.glob("retain-values/*.json")]
    without = train(metrics=())
    assert (without.retain, without.path) == (None, first.path)
    assert without.key != first.key
    kept = [*notes, Path(first.path) / "target.json", _retain_path(first) / "target.json"]
    assert len(notes) >= 2
    for path in kept:
        os.utime(path, (1e9, 1e9))
    for name in ("scores", "reference"):
        monkeypatch.setattr(Evaluator, name, None)
    assert train() == first
    assert prepare.seen == []
    assert {path.name: path.stat().st_mtime > 1e9 for path in kept} == {path.name: True for path in kept}


def test_attacks_that_compare_with_the_target_are_not_measured_on_the_retain_model(train: Train) -> None:
    without, target = train(metrics=()), train(metrics=("depth", "barrier", "prefix"))
    assert target.retain is not None
    attacked = [name for name in target.retain.metrics if METRICS[name].attack]
    assert attacked == ["fact_recall_after_prefix", "verbmem_after_prefix"]
    assert target.baseline["unlearning_depth"] == 0.0
    assert target.baseline["forget_loss_barrier"] == pytest.approx(0.0, abs=1e-9)
    assert target.key_without_retain == without.key != target.key


def test_forget_quality_of_the_target_is_scipys_test_against_the_retain_model(
    train: Train, tiny_data: UnlearningData
) -> None:
    target = train()
    ratios = []
    for folder in (Path(target.path), _retain_path(target)):
        scorer = TextScorer(tokenizer=load_tokenizer(folder), max_length=64, batch_size=3, device="cpu")
        evaluator = Evaluator(tiny_data, scorer, vocabulary_size=9)
        ratios.append(evaluator.scores(load_model(folder)).choices["forget"].truth_ratios)
    assert target.baseline["forget_quality"] == pytest.approx(ks_2samp(*ratios).pvalue, rel=1e-9)


def test_a_killed_training_continues_to_the_same_weights(
    prepare: Preparation, train: Train, make_network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The random state, which dropout uses, is a part of the saved state."""
    tiny = trainables.models.tiny
    monkeypatch.setattr(tiny, "make_tiny", lambda name, tokenizer, seed=0: make_network(resid_pdrop=0.2))
    whole = train()
    monkeypatch.setattr(trainables.target.training, "Throttle", lambda **_: Throttle(share=math.inf))

    def kill(progress: Progress) -> None:
        if progress.text.startswith("retain model") and "epoch 3" in progress.text:
            raise KeyboardInterrupt

    prepare.cache = tmp_path / "killed"
    with pytest.raises(KeyboardInterrupt):
        train(on_progress=kill)
    resumed = train()
    assert ["epoch 3" in item.text for item in prepare.seen if "retain model" in item.text] == [True]
    assert same_bits(_weights(_retain_path(whole)), _weights(_retain_path(resumed)))
    assert resumed.retain is not None
    assert whole.retain is not None
    assert resumed.retain.log_truth_ratios == whole.retain.log_truth_ratios
    assert not list(_retain_path(resumed).parent.parent.glob("unfinished/*.pt"))


def test_a_given_retain_model_is_used_as_it_is_and_beside_a_finished_target_none_is_trained(
    prepare: Preparation, train: Train, known_network: PhiForCausalLM, tokenizer: Any, tmp_path: Path
) -> None:
    save_model(known_network, tokenizer, tmp_path / "mine")
    target = train(retain_path=str(tmp_path / "mine"))
    assert _retain_path(target) == tmp_path / "mine"
    assert not any("retain model" in item.text for item in prepare.seen)
    with pytest.raises((TargetError, DataError), match="retain model"):
        train(target_path=str(tmp_path / "mine"))
