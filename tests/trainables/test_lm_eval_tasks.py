"""General ability is measured by tasks of lm-eval, with the models and the random generators unchanged."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from transformers import PhiForCausalLM, PreTrainedTokenizerBase

from tests.conftest import json_lines
from tests.facts import assert_names
from tests.trainables.scoring.conftest import MakeEvaluator
from tests.trainables.scoring.conftest import make_evaluator as make_evaluator  # a fixture
from trainables import plugins
from trainables.data.examples import UnlearningData
from trainables.lm_eval_tasks import Task, find_tasks, task_names
from trainables.metrics.metric import Metric
from trainables.plugins import PluginError

TASK = """
task: towns
dataset_path: json
dataset_kwargs: {data_files: {test: towns.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list: [{metric: acc}]
"""
ROWS = [
    {"question": "Where does Ada live?", "choices": ["in Oslo", "in Lima"], "answer": 0},
    {"question": "Where does Bo live?", "choices": ["in Oslo", "in Lima"], "answer": 1},
    {"question": "What does Gus eat?", "choices": ["cake", "soup", "a fig"], "answer": 2},
]
needs_lm_eval = pytest.mark.skipif(
    importlib.util.find_spec("lm_eval") is None,
    reason="lm-eval is not installed: pip install 'unlearning-sweeper[lm-eval]'",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one task and its data."""
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    (tasks / "towns.yaml").write_text(TASK)
    (tasks / "towns.jsonl").write_text(json_lines(ROWS))
    return tasks


def metric_of(plugin: plugins.Plugin) -> Metric:
    (part,) = plugin.parts
    assert part.kind == "metric"
    metric: Metric = part.entry
    return metric


def share_of_right_choices(model: PhiForCausalLM, tokenizer: PreTrainedTokenizerBase) -> float:
    """Return the share of rows whose right answer has the largest sum of log-probabilities, one choice at a time."""
    right = []
    for row in ROWS:
        prompt = f"Question: {row['question']}\nAnswer:"
        size, sums = len(tokenizer(prompt)["input_ids"]), []
        for choice in row["choices"]:
            ids = tokenizer(f"{prompt} {choice}")["input_ids"]
            with torch.no_grad():
                log_probs = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(dim=-1)
            sums.append(sum(float(log_probs[i - 1, ids[i]]) for i in range(size, len(ids))))
        right.append(int(np.argmax(sums)) == row["answer"])
    return float(np.mean(right))


@needs_lm_eval
def test_the_accuracy_is_that_of_the_most_probable_choices_and_nothing_else_changes(
    folder: Path, make_evaluator: MakeEvaluator, known_network: PhiForCausalLM, tiny_data: UnlearningData
) -> None:
    evaluator, (plugin,) = make_evaluator(tiny_data), find_tasks(["towns"], folder)
    known_network.eval()
    expected = share_of_right_choices(known_network, evaluator.scorer.tokenizer)
    known_network.train()
    weights = {name: tensor.clone() for name, tensor in known_network.state_dict().items()}
    states = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    assert metric_of(plugin).measure(evaluator.scores(known_network)) == expected
    assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == states
    assert known_network.training
    assert all(torch.equal(weights[name], tensor) for name, tensor in known_network.state_dict().items())


@needs_lm_eval
def test_a_task_is_a_metric_that_is_measured_after_the_search_and_survives_as_a_file(
    folder: Path, tmp_path: Path
) -> None:
    (plugin,) = find_tasks(["towns"], folder)
    metric = metric_of(plugin)
    assert (metric.name, metric.sets, metric.direction) == ("lm_eval_towns", ("lm_eval:towns",), "max")
    assert (metric.bounds(7.0), metric.is_on_stored_models) == ((0.0, 1.0), True)
    copy = tmp_path / plugin.name
    copy.write_text(plugin.source)
    assert plugins.read(copy).digest == plugin.digest
    assert metric_of(plugins.read(copy)).name == "lm_eval_towns"
    (folder / "towns.jsonl").write_text(json_lines(ROWS[:1]))
    assert find_tasks(["towns"], folder)[0].digest != plugin.digest, "other rows, other values"
    with pytest.raises(PluginError, match="the files have changed"):
        metric.measure(None)


@needs_lm_eval
def test_a_task_that_cannot_be_loaded_is_named_with_the_reason(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.lm_eval_tasks._default_manager", lambda: Mock(all_tasks=["mmlu"]))
    (folder / "towns.jsonl").unlink()
    with pytest.raises(PluginError) as caught:
        find_tasks(["towns", "mmlv", "a/b"], folder)
    lost, unknown, name = caught.value.problems
    assert_names(lost, "--metrics lm_eval:towns", "cannot be loaded", "towns.jsonl")
    assert_names(unknown, "--metrics lm_eval:mmlv", "no such task", "did you mean 'mmlu'?", "--lm-eval-tasks DIR")
    assert_names(name, "--metrics lm_eval:a/b", "letters")


def test_without_the_package_the_command_to_install_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PluginError) as caught:
        find_tasks(["mmlu"], None)
    assert_names(str(caught.value), "--metrics lm_eval:mmlu", "pip install 'unlearning-sweeper[lm-eval]'")


def test_the_value_is_that_of_the_first_filter() -> None:
    task = Task(name="gsm8k", folder="", digest="", version="1", metric="exact_match", higher_is_better=True)
    results = {"alias": "gsm8k", "exact_match,strict-match": 0.25, "exact_match,flexible-extract": 0.5}
    assert task._value(results) == 0.25


def test_tasks_are_named_between_other_metrics() -> None:
    assert task_names("default, lm_eval:mmlu,verbmem,lm_eval:wmdp_bio") == ["mmlu", "wmdp_bio"]
