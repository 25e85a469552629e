"""The questions that losses and metrics are measured on, and the passes and memory it takes."""

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
from transformers import PhiForCausalLM

from tests.trainables.scoring.conftest import MakeEvaluator
from trainables.data.examples import Example, UnlearningData
from trainables.data.jsonl import load_jsonl
from trainables.text.tokens import encode_examples


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
    make_evaluator: MakeEvaluator,
    half_known: PhiForCausalLM,
    make_network: Any,
    tokenizer: Any,
    tiny_data: UnlearningData,
    judged_apart: UnlearningData,
    exact_nll: Any,
) -> None:
    def losses_of(part: Sequence[Example]) -> list[torch.Tensor]:
        return [exact_nll(half_known, item) for item in encode_examples(tokenizer, part, max_length=64)]

    evaluator = make_evaluator(judged_apart)
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


def test_whether_a_target_knows_the_forget_set_is_measured_on_the_forget_set(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, judged_apart: UnlearningData
) -> None:
    plain, apart = make_evaluator(), make_evaluator(judged_apart)
    assert apart.verbmem(half_known) == plain.verbmem(half_known) != apart.measure(half_known).metrics["verbmem"]


@pytest.mark.parametrize(("apart", "passes"), [(False, 0), (True, 8)])
def test_one_pass_gives_losses_and_probabilities_if_both_are_of_the_same_questions(
    make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData, apart: bool, passes: int
) -> None:
    """The questions and answers decide, not the paraphrases that forget_eval may have beside them."""
    bare = tuple(Example(item.question, item.answer) for item in tiny_data.forget)
    judged = tuple(reversed(tiny_data.forget)) if apart else tiny_data.forget
    evaluator = make_evaluator(replace(tiny_data, forget=bare, forget_eval=judged), batch_size=1)
    losses = evaluator.losses(known_network)
    seen = []
    handle = known_network.register_forward_hook(lambda *_: seen.append(1))
    found = evaluator.measure(known_network, ("probability",), unchanged=True)
    handle.remove()
    assert len(seen) == passes
    assert -math.log(found.metrics["forget_probability"]) == pytest.approx(losses["forget_loss"], abs=0.01)


def test_a_scored_model_is_freed_without_the_garbage_collector(
    make_evaluator: MakeEvaluator, make_network: Any
) -> None:
    """The next model needs its memory."""
    evaluator, model = make_evaluator(), make_network(seed=4)
    gone = weakref.ref(model)
    gc.disable()
    try:
        retain = evaluator.reference(model, key="own", path="")
        evaluator.measure(model, ("tofu",), retain=retain)
        del model
        assert gone() is None
    finally:
        gc.enable()
