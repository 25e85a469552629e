"""Every metric of a tiny model against its formula written out here: one text at a time, float64, plain loops."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score
from transformers import PhiForCausalLM

from tests.facts import assert_names
from tests.trainables.scoring.conftest import MakeEvaluator
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.registry import METRICS, SETS
from trainables.scoring.chosen_metrics import MetricError, chosen_metrics
from trainables.scoring.eval_log import evaluate_log, read_eval_log
from trainables.scoring.evaluator import Evaluator
from trainables.scoring.item_log import write_item_log
from trainables.text.tokens import encode

NAMES = tuple(
    name
    for name, metric in METRICS.items()
    if "language" in metric.modalities and not metric.loss and name != "knowmem"
)


@pytest.fixture(scope="module")
def data(tiny_data: UnlearningData) -> UnlearningData:
    """The tiny problem with TOFU's further sets and a holdout set; no two of the same size."""
    # Some of it is known, so that no attack tells the two sides apart without fail.
    unknown = tuple(Example(f"Where did {name} go?", f"{name} went away") for name in ("Ada", "Finn"))
    holdout = (*unknown, *tiny_data.retain[2:5])
    authors = tuple(replace(item, paraphrased_answer=item.answer) for item in tiny_data.retain[:5])
    facts = tuple(replace(item, paraphrased_answer=item.answer) for item in tiny_data.forget[2:6])
    return replace(tiny_data, extra_eval={"real_authors": authors, "world_facts": facts}, holdout=holdout)


@pytest.fixture(scope="module")
def evaluator(make_evaluator: MakeEvaluator, data: UnlearningData) -> Evaluator:
    return make_evaluator(data)


@pytest.fixture(scope="module")
def retained(known_network: PhiForCausalLM, make_network: Any) -> PhiForCausalLM:
    """Stands for the model trained without the forget set: another mixture."""
    other: PhiForCausalLM = make_network(seed=3)
    with torch.no_grad():
        for parameter, known in zip(other.parameters(), known_network.parameters(), strict=True):
            parameter.copy_(0.3 * known + 0.7 * parameter)
    return other


class ByHand:
    """The values of one model, each from a forward pass of its own in float64."""

    def __init__(self, model: PhiForCausalLM, tokenizer: Any) -> None:
        self._model = model.double().eval()
        self._tokenizer = tokenizer

    def log_p(self, example: Example, answer: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """``(T, V)`` log-probabilities at each answer token and EOS, and those tokens."""
        tokens = encode(self._tokenizer, example.question, answer or example.answer, max_length=64)
        with torch.no_grad():
            logits = self._model(input_ids=torch.tensor([tokens.ids])).logits[0, tokens.prompt_length - 1 : -1]
        return torch.log_softmax(logits, -1).numpy(), np.array(tokens.ids[tokens.prompt_length :])

    def loss(self, example: Example, answer: str | None = None) -> float:
        log_p, ids = self.log_p(example, answer)
        return -float(np.mean([row[token] for row, token in zip(log_p, ids, strict=True)]))

    def ratio(self, example: Example) -> float:
        wrong = [self.loss(example, answer) for answer in example.perturbed_answers]
        return math.exp(self.loss(example, example.paraphrased_answer) - sum(wrong) / len(wrong))

    def chance(self, example: Example) -> float:
        """Of the right answer among the wrong ones."""
        right = math.exp(-self.loss(example))
        return right / (right + sum(math.exp(-self.loss(example, wrong)) for wrong in example.perturbed_answers))

    def attack(self, name: str, example: Example, reference: ByHand) -> float:
        log_p, ids = (part[:-1] for part in self.log_p(example))
        own = np.array([row[token] for row, token in zip(log_p, ids, strict=True)])
        lowest = max(1, int(0.4 * len(own)))
        if name == "mia_zlib":
            return float(own.mean()) / len(zlib.compress(example.answer.encode()))
        if name == "mia_min_k":
            return float(np.mean(sorted(own)[:lowest]))
        if name == "mia_min_k_plus_plus":
            p = np.exp(log_p)
            mean = (p * log_p).sum(-1)
            std = np.sqrt((p * log_p**2).sum(-1) - mean**2)
            return float(np.mean(sorted((own - mean) / np.maximum(std, 1e-3))[:lowest]))
        if name == "mia_reference":
            return float(own.mean()) - reference.attack("mia_loss", example, reference)
        return float(own.mean())

    def auc(self, name: str, data: UnlearningData, reference: ByHand) -> float:
        scores = [self.attack(name, item, reference) for item in (*data.forget, *data.holdout)]
        return float(roc_auc_score([1] * len(data.forget) + [0] * len(data.holdout), scores))

    def hits(self, example: Example) -> list[bool]:
        log_p, ids = (part[:-1] for part in self.log_p(example))
        return [bool(row.argmax() == token) for row, token in zip(log_p, ids, strict=True)]


@pytest.fixture(scope="module")
def found(evaluator: Evaluator, half_known: PhiForCausalLM, retained: PhiForCausalLM) -> Any:
    retain = evaluator.reference(retained, key="retain", path="")
    return evaluator.measure(half_known, NAMES, retain=retain)


@pytest.fixture(scope="module")
def by_hand(found: Any, half_known: PhiForCausalLM, tokenizer: Any) -> ByHand:
    return ByHand(half_known, tokenizer)  # after ``found``: it makes the network a float64 one


@pytest.fixture(scope="module")
def retained_by_hand(found: Any, retained: PhiForCausalLM, tokenizer: Any) -> ByHand:
    return ByHand(retained, tokenizer)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def test_every_metric_asked_for_is_there(found: Any) -> None:
    assert tuple(found.metrics) == NAMES
    assert all(math.isfinite(value) for value in found.metrics.values())
    assert found.generation_seconds > 0


def test_probabilities_are_those_of_each_answer(found: Any, by_hand: ByHand, data: UnlearningData) -> None:
    for name, part in (("forget_probability", data.forget), ("retain_probability", data.retain_eval)):
        assert found.metrics[name] == pytest.approx(_mean([math.exp(-by_hand.loss(item)) for item in part]), rel=1e-4)


def test_forget_quality_is_scipys_test_of_the_two_models_truth_ratios(
    found: Any, by_hand: ByHand, retained_by_hand: ByHand, data: UnlearningData
) -> None:
    samples = [[scores.ratio(item) for item in data.forget_eval] for scores in (by_hand, retained_by_hand)]
    assert found.metrics["forget_quality"] == pytest.approx(ks_2samp(*samples).pvalue, rel=1e-12)


def test_model_utility_is_the_harmonic_mean_of_nine(found: Any, by_hand: ByHand, data: UnlearningData) -> None:
    nine = [found.metrics["utility"], _mean([math.exp(-by_hand.loss(item)) for item in data.retain_eval])]
    nine.append(_mean([max(0.0, 1 - by_hand.ratio(item)) for item in data.retain_eval]))
    keys = {"real_authors": "eval_real_author_wo_options.json", "world_facts": "eval_real_world_wo_options.json"}
    for part, key in keys.items():
        examples = data.extra_eval[part]
        nine.append(_mean([by_hand.chance(item) for item in examples]))
        nine.append(_mean([max(0.0, 1 - by_hand.ratio(item)) for item in examples]))
        nine.append(_mean(list(found.items[key]["rougeL_recall"].values())))
    assert found.metrics["model_utility"] == pytest.approx(9 / sum(1 / score for score in nine), rel=1e-4)


@pytest.mark.parametrize("name", SETS["mia"])
def test_an_attack_is_the_auc_over_texts_scored_one_by_one(
    found: Any, by_hand: ByHand, retained_by_hand: ByHand, data: UnlearningData, name: str
) -> None:
    assert found.metrics[name] == pytest.approx(by_hand.auc(name, data, retained_by_hand), rel=1e-9)


def test_privleak_is_relative_to_the_retain_model(
    found: Any, by_hand: ByHand, retained_by_hand: ByHand, data: UnlearningData
) -> None:
    own, other = (1 - scores.auc("mia_min_k", data, by_hand) for scores in (by_hand, retained_by_hand))
    assert found.metrics["privleak"] == pytest.approx(100 * (own - other) / other, rel=1e-9)


@pytest.mark.parametrize(("name", "ideal"), [("privleak", 0.0), *((name, 0.5) for name in SETS["mia"])])
def test_the_distance_from_an_ideal_is_measured_by_name_and_in_no_set(found: Any, name: str, ideal: float) -> None:
    assert found.metrics[f"{name}_distance"] == abs(found.metrics[name] - ideal)
    assert not [names for names in SETS.values() if f"{name}_distance" in names]


def test_memorisation_is_that_of_the_answers_without_eos(found: Any, by_hand: ByHand, data: UnlearningData) -> None:
    hits = [by_hand.hits(item) for item in data.forget]
    assert found.metrics["exact_memorization"] == pytest.approx(_mean([_mean(item) for item in hits]), rel=1e-12)
    strengths = [
        max((len(item) - start) / len(item) for start in range(len(item) + 1) if all(item[start:])) for item in hits
    ]
    assert found.metrics["extraction_strength"] == pytest.approx(_mean(strengths), rel=1e-12)


def test_the_item_log_gives_the_same_metrics_when_read_as_a_published_log(found: Any, tmp_path: Path) -> None:
    write_item_log(tmp_path / "items.json", found.items)
    again = evaluate_log(read_eval_log(tmp_path / "items.json"))
    assert again["model_utility"] == pytest.approx(found.metrics["model_utility"], rel=1e-12)
    for part, score, name in (
        ("forget", "probability", "forget_probability"),
        ("forget", "truth_ratio", "forget_truth_ratio"),
        ("forget", "rouge_l_recall", "verbmem"),
        ("retain", "rouge_l_recall", "utility"),
        ("retain", "truth_ratio", "truth_ratio"),
    ):
        assert again[part][score] == pytest.approx(found.metrics[name], rel=1e-12)


def test_forget_quality_of_two_item_logs_is_the_one_measured(
    evaluator: Evaluator, make_network: Any, tmp_path: Path
) -> None:
    one, other = make_network(seed=5), make_network(seed=6)
    retain = evaluator.reference(other, key="retain", path="")
    paths = []
    for index, model in enumerate((one, other)):
        measured = evaluator.measure(model, ("tofu",), retain=retain)
        paths.append(tmp_path / f"{index}.json")
        write_item_log(paths[-1], measured.items)
        if index == 0:
            expected = measured.metrics["forget_quality"]
    found = evaluate_log(read_eval_log(paths[0]), read_eval_log(paths[1]))
    assert found["forget_quality"] == pytest.approx(expected, rel=1e-12)


def test_the_item_log_of_a_model_that_repeats_itself_gives_the_same_repetition(
    evaluator: Evaluator, make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    model = make_network(seed=5)
    with torch.no_grad():
        model.lm_head.bias[tokenizer(" Oslo").input_ids[-1]] = 1e3  # whatever is asked, it says nothing else
    found = evaluator.measure(model, ("default", "model_utility"))
    write_item_log(tmp_path / "items.json", found.items)
    again = evaluate_log(read_eval_log(tmp_path / "items.json"))
    for part in ("forget", "retain"):
        assert again[part]["repetition"] == pytest.approx(found.metrics[f"{part}_repetition"], rel=1e-12)
        assert again[part]["longest_loop"] == found.metrics[f"{part}_longest_loop"] == 1.0
        assert again[part]["repetition"] > 0.0


def test_values_that_are_not_finite_are_null_in_the_log(tmp_path: Path) -> None:
    write_item_log(tmp_path / "items.json", {"part": {"loss": {"0": math.nan, "1": [math.inf, 1.0]}}})
    assert json.loads((tmp_path / "items.json").read_text()) == {"part": {"loss": {"0": None, "1": [None, 1.0]}}}


def test_a_metric_that_the_data_cannot_give_is_refused_by_name_and_left_out_of_a_set(
    make_evaluator: MakeEvaluator, make_network: Any
) -> None:
    with pytest.raises(MetricError) as caught:
        make_evaluator().measure(make_network(), ("mia_loss", "model_utility", "forget_quality"))
    assert_names(caught.value, "mia_loss", "holdout", "model_utility", "real_authors and world_facts")
    assert_names(caught.value, "forget_quality", "retain model")
    found = make_evaluator().measure(make_network(), ("all",)).metrics
    assert {"verbmem", "forget_probability", "extraction_strength"} <= set(found)
    assert not {"mia_loss", "model_utility", "forget_quality", "privleak"} & set(found)


def test_a_set_of_which_nothing_can_be_measured_is_refused(tiny_data: UnlearningData) -> None:
    with pytest.raises(MetricError) as caught:
        chosen_metrics(("verbmem", "mia"), tiny_data)
    assert_names(caught.value, "mia", "holdout")
    assert "verbmem" in chosen_metrics(("default",), tiny_data)
