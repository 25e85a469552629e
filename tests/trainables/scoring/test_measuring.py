"""Metrics by name: forget quality against scipy, the item log, which questions are judged, what data cannot give."""

from __future__ import annotations

import gc
import json
import math
import weakref
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from transformers import PhiForCausalLM

from trainables.data.examples import Example, UnlearningData
from trainables.data.jsonl import load_jsonl
from trainables.scoring.choice import MetricError
from trainables.scoring.eval_log import evaluate_log, read_eval_log
from trainables.scoring.evaluator import Evaluator
from trainables.scoring.item_log import write_item_log
from trainables.text.tokens import encode_examples


def _evaluator(data: UnlearningData, tokenizer: Any, batch_size: int = 5) -> Evaluator:
    return Evaluator(
        data, tokenizer, vocabulary_size=len(tokenizer), max_length=64, batch_size=batch_size, device="cpu"
    )


def test_the_item_log_read_back_gives_the_same_metrics(
    known_network: PhiForCausalLM, make_network: Any, tokenizer: Any, tiny_data: UnlearningData, tmp_path: Path
) -> None:
    data = replace(tiny_data, extra_eval={"real_authors": tiny_data.retain[:5], "world_facts": tiny_data.forget[:4]})
    evaluator = _evaluator(data, tokenizer)
    other = make_network(seed=3)
    retain = evaluator.reference(other, key="other", path="")
    names = ("verbmem", "utility", "truth_ratio", "forget_truth_ratio", "model_utility", "forget_quality")
    for name, model in (("model", known_network), ("retain", other)):
        evaluator.losses(model)
        found = evaluator.measure(model, ("tofu",), retain=retain, unchanged=True)
        write_item_log(tmp_path / f"{name}.json", found.items)
        if name == "model":
            metrics = found.metrics
    assert set(names) <= set(metrics)
    log, other_log = (read_eval_log(tmp_path / f"{name}.json") for name in ("model", "retain"))
    read = evaluate_log(log, other_log)
    assert read["model_utility"] == pytest.approx(metrics["model_utility"], abs=1e-9)
    assert read["forget_quality"] == pytest.approx(metrics["forget_quality"], abs=1e-9)
    assert read["forget"]["truth_ratio"] == pytest.approx(metrics["forget_truth_ratio"], abs=1e-9)
    assert read["retain"]["rouge_l_recall"] == pytest.approx(metrics["utility"], abs=1e-9)
    ratios = [
        part.paraphrased_loss - [row.mean() for row in part.perturbed_loss] for part in (log.forget, other_log.forget)
    ]
    assert metrics["forget_quality"] == pytest.approx(ks_2samp(*ratios).pvalue, abs=1e-9)


def test_a_metric_the_data_cannot_give_is_refused_by_name_and_left_out_of_a_set(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    evaluator = _evaluator(tiny_data, tokenizer)
    with pytest.raises(MetricError, match="mia_loss needs a holdout set"):
        evaluator.measure(known_network, ("mia_loss",))
    assert "model_utility" not in evaluator.measure(known_network, ("all",)).metrics


@pytest.fixture
def judged_apart(tiny_data: UnlearningData, tmp_path: Path) -> UnlearningData:
    """A folder of the user's own whose forget_eval has five of the eight questions, backwards."""
    judged = tuple(reversed(tiny_data.forget[2:7]))
    for name, rows in (("forget", tiny_data.forget), ("retain", tiny_data.retain), ("forget_eval", judged)):
        lines = [
            {"question": row.question, "answer": row.answer}
            | {"paraphrased_answer": row.paraphrased_answer, "perturbed_answer": row.perturbed_answers}
            for row in rows
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    held = {"question": "Where did Finn go?", "answer": "Finn went away"}
    (tmp_path / "holdout.jsonl").write_text(json.dumps(held) + "\n")
    return load_jsonl(data_dir=tmp_path)


def test_forgetting_is_judged_on_forget_eval_and_the_losses_are_of_the_forget_set(
    half_known: PhiForCausalLM,
    make_network: Any,
    tokenizer: Any,
    tiny_data: UnlearningData,
    judged_apart: UnlearningData,
    exact_nll: Any,
) -> None:
    def losses_of(part: Sequence[Example]) -> list[torch.Tensor]:
        return [exact_nll(half_known, item) for item in encode_examples(tokenizer, part, max_length=64)]

    evaluator = _evaluator(judged_apart, tokenizer)
    losses = evaluator.losses(half_known)
    retain = evaluator.reference(make_network(seed=3), key="other", path="")
    names = ("verbmem", "forget_probability", "forget_truth_ratio", "exact_memorization", "mia_loss", "mia_reference")
    found = evaluator.measure(half_known, names, retain=retain, unchanged=True)
    assert losses["forget_loss"] == pytest.approx(float(torch.cat(losses_of(tiny_data.forget)).mean()), rel=1e-5)
    judged = judged_apart.forget_eval
    means = [float(item.mean()) for item in losses_of(judged)]
    log = found.items["eval_log_forget.json"]
    assert list(log["avg_gt_loss"].values()) == pytest.approx(means, rel=1e-4)
    assert found.metrics["forget_probability"] == pytest.approx(np.mean(np.exp(-np.array(means))), rel=1e-4)
    asked = [(row[0], row[2]) for row in log["generated_text"].values()]
    assert asked == [(f"Question: {item.question}\nAnswer:", item.answer) for item in judged]
    assert found.metrics["verbmem"] == pytest.approx(np.mean(list(log["rougeL_recall"].values())))
    paraphrased = [Example(item.question, item.paraphrased_answer) for item in judged]
    expected = [float(item.mean()) for item in losses_of(paraphrased)]
    assert list(log["avg_paraphrased_loss"].values()) == pytest.approx(expected, rel=1e-4)
    assert {len(column) for column in log.values()} == {5} == {len(found.items["membership"]["mia_loss"]["forget"])}


def test_whether_a_target_knows_the_forget_set_is_asked_of_the_forget_set(
    half_known: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, judged_apart: UnlearningData
) -> None:
    plain, apart = (_evaluator(data, tokenizer) for data in (tiny_data, judged_apart))
    assert apart.verbmem(half_known) == plain.verbmem(half_known) != apart.measure(half_known).metrics["verbmem"]


@pytest.mark.parametrize(("apart", "passes"), [(False, 0), (True, 8)])
def test_the_pass_behind_the_losses_serves_the_probabilities_where_both_are_of_the_same_questions(
    known_network: PhiForCausalLM, tokenizer: Any, tiny_data: UnlearningData, apart: bool, passes: int
) -> None:
    """The questions and answers decide, not the paraphrases that forget_eval may have beside them."""
    bare = tuple(Example(item.question, item.answer) for item in tiny_data.forget)
    judged = tuple(reversed(tiny_data.forget)) if apart else tiny_data.forget
    evaluator = _evaluator(replace(tiny_data, forget=bare, forget_eval=judged), tokenizer, batch_size=1)
    losses = evaluator.losses(known_network)
    seen = []
    handle = known_network.register_forward_hook(lambda *_: seen.append(1))
    found = evaluator.measure(known_network, ("probability",), unchanged=True)
    handle.remove()
    assert len(seen) == passes
    assert -math.log(found.metrics["forget_probability"]) == pytest.approx(losses["forget_loss"], abs=0.01)


def test_a_model_that_was_scored_is_let_go_at_once(
    make_network: Any, tokenizer: Any, tiny_data: UnlearningData
) -> None:
    """Not when the collector comes round: the next model needs its memory."""
    evaluator, model = _evaluator(tiny_data, tokenizer), make_network(seed=4)
    gone = weakref.ref(model)
    gc.disable()
    try:
        retain = evaluator.reference(model, key="own", path="")
        evaluator.measure(model, ("tofu",), retain=retain)
        del model
        assert gone() is None
    finally:
        gc.enable()
