"""A target is trained once per content and saved completely or not at all. Its scores belong to its weights."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PhiForCausalLM, PreTrainedModel

import trainables.target.training
from tests.facts import assert_names
from tests.trainables.target.conftest import SPEC, Preparation
from trainables.data import DataError, load_data
from trainables.data.examples import UnlearningData
from trainables.models.checkpoints import load_model, save_model
from trainables.models.registry import MODELS, TargetRecipe
from trainables.models.weights import LoadError
from trainables.scoring.language import Evaluator
from trainables.spec import TrialSpec
from trainables.target.cache import TargetError, folder_digest
from trainables.target.prepare import WAITING
from trainables.target.target import Target, target_recipe, target_spec_of
from trainables.target.training import Progress, load_base
from trainables.text.scorer import TextScorer
from trainables.text.tokens import encode_examples


@pytest.mark.parametrize("metrics", [(), ("default", "forget_quality")], ids=["default", "with a retain model"])
def test_a_target_whose_scores_are_not_needed_is_not_measured(prepare: Preparation, metrics: tuple[str, ...]) -> None:
    spec = replace(SPEC, metrics=metrics)
    bare = prepare(spec, measured=False)
    assert not (prepare.cache / "baselines").exists()
    assert not (prepare.cache / "retain-values").exists()
    full = prepare(spec)
    assert (full.retain is not None) == bool(metrics)
    assert (bare.key, bare.path, bare.vocabulary_size) == (full.key, full.path, full.vocabulary_size)
    assert (bare.baseline, bare.answers) == ({}, {})
    assert "verbmem" in full.baseline


def test_a_target_is_trained_once_for_all_methods_and_rates_and_records_its_origin(prepare: Preparation) -> None:
    first = prepare()
    assert prepare.epochs == 2
    assert Path(first.path).is_absolute()
    record = Path(first.path) / "target.json"
    written = json.loads(record.read_text())
    assert (written["model"], written["data"], written["epochs"]) == ("tiny-phi", "tiny", 2)
    assert TargetRecipe(**written["recipe"]) == target_recipe(SPEC)
    os.utime(record, (0, 0))
    assert prepare() == prepare(replace(SPEC, method="npo", lr=0.5, seed=9, epochs=1)) == first
    assert prepare.epochs == 0
    assert prepare.folders == [Path(first.path).name]
    assert record.stat().st_mtime > 0, "it counts as used for the command cache"


def test_other_data_recipe_or_length_make_another_target_and_another_split_only_other_scores(
    prepare: Preparation, tiny_data: UnlearningData
) -> None:
    """The target is trained on the forget set and the retain set together."""
    original = prepare()
    keys = [original.key]
    prepare.data = replace(tiny_data, forget=tiny_data.forget[:4], forget_eval=tiny_data.forget[:4])
    split = prepare()
    keys.append(split.key)
    assert prepare.epochs == 0
    assert (split.path, len(split.reference_nll)) == (original.path, 4)
    assert split.baseline["forget_loss"] != original.baseline["forget_loss"]
    prepare.data = tiny_data
    for spec in (replace(SPEC, target_lr=2e-3), replace(SPEC, max_length=63)):
        keys.append(prepare(spec).key)
        assert prepare.epochs == 2
    first = tiny_data.full[0]
    prepare.data = replace(tiny_data, full=(replace(first, answer=f"{first.answer}!"), *tiny_data.full[1:]))
    keys.append(prepare().key)
    assert prepare.epochs == 2
    assert len(set(keys)) == 5


def test_baseline_and_reference_likelihoods_are_those_of_the_weights(
    prepare: Preparation, tiny_data: UnlearningData, tokenizer: Any, exact_nll: Any
) -> None:
    target = prepare()
    model = load_model(target.path)
    forget = encode_examples(tokenizer, tiny_data.forget, max_length=64)
    exact = [exact_nll(model, item) for item in forget]
    assert target.reference_nll == pytest.approx([float(nll.sum()) for nll in exact], rel=1e-5)
    assert target.baseline["forget_loss"] == pytest.approx(float(torch.cat(exact).mean()), rel=1e-5)
    scorer = TextScorer(tokenizer=tokenizer, max_length=64, batch_size=32, device="cpu")
    evaluator = Evaluator(tiny_data, scorer, vocabulary_size=len(tokenizer))
    scores = evaluator.scores(model, target=lambda: nullcontext(model))
    assert target.baseline == {**scores.loss_metrics(), **scores.measure().metrics}
    assert target.vocabulary_size == len(tokenizer)
    assert target.data == tiny_data


def test_a_target_from_a_folder_is_used_as_it_is_and_known_by_its_content(
    prepare: Preparation,
    known_network: PhiForCausalLM,
    make_network: Any,
    tokenizer: Any,
    tmp_path: Path,
    exact_nll: Any,
) -> None:
    spec = replace(SPEC, target_path=str(tmp_path / "mine"))
    save_model(known_network, tokenizer, tmp_path / "mine")
    before = (tmp_path / "mine" / "model.safetensors").read_bytes()
    target = prepare(spec)
    assert (prepare.epochs, prepare.folders, target.path) == (0, [], str(tmp_path / "mine"))
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == before
    first = encode_examples(tokenizer, prepare.data.forget[:1], max_length=64)[0]
    assert target.reference_nll[0] == pytest.approx(float(exact_nll(known_network, first).sum()), rel=1e-3)
    assert prepare(spec) == target
    save_model(make_network(seed=1), tokenizer, tmp_path / "mine")
    other = prepare(spec)
    assert other.key != target.key
    assert other.baseline != target.baseline


def test_a_base_model_from_a_folder_is_fine_tuned(
    prepare: Preparation, make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    base = make_network(seed=4)
    save_model(base, tokenizer, tmp_path / "base")
    spec = replace(SPEC, model="my-model", model_path=str(tmp_path / "base"), target_lr=1e-6)
    target = prepare(spec)
    assert prepare.epochs == 2
    tuned = load_model(target.path)
    moves = [float((one - two).abs().max()) for one, two in zip(base.parameters(), tuned.parameters(), strict=True)]
    assert 0.0 < max(moves) < 1e-5
    save_model(make_network(seed=5), tokenizer, tmp_path / "base")
    assert prepare(spec).key != target.key
    assert prepare.epochs == 2


def test_an_interrupted_training_or_save_leaves_no_folder_and_the_next_one_works(
    prepare: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    def half_a_save(model: Any, tokenizer: Any, folder: Path) -> None:
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prepare(on_progress=interrupt)
    assert prepare.folders == []
    with monkeypatch.context() as patched:
        patched.setattr(trainables.target.training, "write_model", half_a_save)
        with pytest.raises(KeyboardInterrupt):
            prepare()
    assert prepare.folders == []
    prepare()
    assert prepare.epochs == 2


def test_the_second_of_two_sweeps_that_need_one_target_waits_for_the_first(
    prepare: Preparation, monkeypatch: pytest.MonkeyPatch
) -> None:
    # If two threads load models at once, transformers loses this method permanently. Sweeps are separate processes.
    monkeypatch.setattr(PreTrainedModel, "tie_weights", PreTrainedModel.tie_weights)
    waited: list[str] = []
    trained: list[str] = []
    others: list[Target] = []

    def other_sweep() -> None:
        others.append(prepare(on_progress=lambda progress: waited.append(progress.text)))

    second = threading.Thread(target=other_sweep)

    def first_trains(progress: Progress) -> None:
        trained.append(progress.text)
        if len(trained) == 1:
            second.start()
            while not waited:  # until the second thread waits for the first
                time.sleep(0.01)

    first = prepare(on_progress=first_trains)
    second.join(timeout=60)
    assert [first] == others
    assert waited == [WAITING]
    assert len(trained) == 2, "both epochs, once"
    assert len(prepare.folders) == 1


@pytest.mark.parametrize(
    ("changes", "error", "facts"),
    [
        ({"target_path": "nowhere"}, TargetError, ("nowhere", "model folder")),
        ({"model_path": "nowhere"}, TargetError, ("nowhere", "model folder")),
        ({"model": "my-model", "model_path": "notes"}, LoadError, ("notes",)),
    ],
    ids=["no target", "no model", "no model in the folder"],
)
def test_a_missing_model_is_named_and_not_replaced_by_a_tiny_one(
    prepare: Preparation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: Any, error: Any, facts: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes").mkdir()
    Path("notes", "config.json").write_text("{}")
    with pytest.raises(error) as caught:
        prepare(replace(SPEC, **changes))
    assert_names(caught.value, *facts)
    assert prepare.folders == []


def test_a_folders_digest_is_that_of_its_weights_configuration_and_tokenizer(tmp_path: Path) -> None:
    for name in ("model.safetensors", "config.json", "vocab.txt", "tokenizer.model"):
        before = folder_digest(tmp_path)
        (tmp_path / name).write_text("same")
        assert folder_digest(tmp_path) != before
    before = folder_digest(tmp_path)
    (tmp_path / "README.md").write_text("same")
    assert folder_digest(tmp_path) == before
    (tmp_path / "config.json").rename(tmp_path / "settings.json")
    assert folder_digest(tmp_path) != before


def test_the_recipe_is_that_of_the_model_with_the_changes_of_the_spec() -> None:
    own, phi = MODELS["tiny-phi"].recipe, MODELS["phi-1.5"].recipe
    assert target_recipe(TrialSpec()) == own
    assert target_recipe(TrialSpec(target_lr=0.5, target_batch_size=3)) == replace(own, lr=0.5, batch_size=3)
    assert target_recipe(TrialSpec(target_epochs=4)) == replace(own, epochs=4, stop_when_memorised=False)
    assert target_recipe(TrialSpec(model="phi-1.5")) == phi
    assert target_recipe(TrialSpec(model="my-model", model_path="somewhere")) == phi
    assert target_recipe(TrialSpec(model="mistral-7b", lora_rank=2)).lora_rank == 8
    assert target_recipe(TrialSpec(model="mistral-7b", target_lora_rank=0)) == phi, "0 is no adapter"
    assert target_recipe(TrialSpec(model="microsoft/phi-1_5", target_lora_rank=4)) == replace(phi, lora_rank=4)


def test_the_seeds_of_target_and_data_make_other_weights_other_data_and_other_names() -> None:
    first, same, other = (target_spec_of(TrialSpec(target_seed=seed)) for seed in (0, 0, 3))
    assert first.trained_key == same.trained_key != other.trained_key
    assert first.retain_key != other.retain_key
    weights = [next(load_base(spec)[0].parameters()) for spec in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    other = target_spec_of(TrialSpec(data_seed=3))
    assert not {item.answer for item in other.data.forget} & {item.answer for item in first.data.forget}
    assert other.trained_key != first.trained_key
    with pytest.raises(DataError, match=r"data_seed .*digits"):
        load_data("digits", seed=1)
