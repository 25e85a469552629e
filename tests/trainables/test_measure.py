"""Metrics by name: forget quality against scipy, the item log read back, and what the data cannot give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import ks_2samp
from transformers import PhiForCausalLM

from trainables.data.examples import UnlearningData
from trainables.evaluation import Evaluator
from trainables.evaluation_sets import MetricError
from trainables.item_log import write_item_log
from trainables.metrics.eval_log import evaluate_log, read_eval_log


def test_the_item_log_read_back_gives_the_same_metrics(
    known_network: PhiForCausalLM, make_network: Any, tokenizer: Any, tiny_data: UnlearningData, tmp_path: Path
) -> None:
    data = replace(tiny_data, extra_eval={"real_authors": tiny_data.retain[:5], "world_facts": tiny_data.forget[:4]})
    evaluator = Evaluator(data, tokenizer, vocabulary_size=len(tokenizer), max_length=64, batch_size=5, device="cpu")
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
    evaluator = Evaluator(
        tiny_data, tokenizer, vocabulary_size=len(tokenizer), max_length=64, batch_size=5, device="cpu"
    )
    with pytest.raises(MetricError, match="mia_loss needs a holdout set"):
        evaluator.measure(known_network, ("mia_loss",))
    assert "model_utility" not in evaluator.measure(known_network, ("all",)).metrics
