"""Every attack leaves the model and the random states as they were, and its values repeat."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PhiForCausalLM

import trainables.attacks.depth as depth_module
import trainables.attacks.training as training
from tests.trainables.models.test_nf4 import nearest_codes, values_of_the_paper
from trainables.attacks.barrier import height
from trainables.attacks.benign import same_syntax
from trainables.attacks.depth import depth_scores
from trainables.attacks.model import editable
from trainables.attacks.quantize import int8, nf4
from trainables.attacks.registry import ATTACKS, AttackError, metric_sets, parse_attacks
from trainables.attacks.relearn import first_half
from trainables.attacks.sample import leak_at_k
from trainables.data.authors import authors
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.losses import ItemLosses
from trainables.metrics.registry import METRICS, SETS
from trainables.models.adapters import add_adapter
from trainables.models.checkpoints import load_model, save_model, write_model
from trainables.models.tiny import train_tokenizer
from trainables.saved_state import kept_random_states
from trainables.scoring.base import MetricError, select_metrics
from trainables.scoring.language import Evaluator, ModelScores
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems
from trainables.target.target import attack_settings
from trainables.text.scorer import TextScorer
from trainables.text.tokens import Tokens

Weights = Mapping[str, torch.Tensor]


@pytest.fixture(scope="module")
def data(tiny_data: UnlearningData) -> UnlearningData:
    """Return the tiny problem with the same questions in other words."""
    rephrased = tuple(replace(item, question=f"{item.question} In which town?") for item in tiny_data.forget)
    return replace(tiny_data, extra_eval={"forget_rephrased": rephrased})


@pytest.fixture(scope="module")
def scores_of(
    data: UnlearningData,
    tokenizer: Any,
    known_network: PhiForCausalLM,
    make_network: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., ModelScores]:
    """Return a function that evaluates a copy of a model, by default of the known network.

    A network that is not trained is the model that never saw the forget set.
    """
    from contextlib import nullcontext

    scorer = TextScorer(tokenizer=tokenizer, max_length=64, batch_size=8, device="cpu")
    evaluator = Evaluator(data, scorer, vocabulary_size=len(tokenizer))
    evaluator.attack_settings = attack_settings(TrialSpec())
    folder, network = tmp_path_factory.mktemp("retain"), make_network(seed=9)
    write_model(network, tokenizer, folder)
    retain = evaluator.reference(network, key="retain", path=str(folder))

    def scores(model: PhiForCausalLM = known_network) -> ModelScores:
        target = copy.deepcopy(known_network)
        return evaluator.scores(copy.deepcopy(model), retain=retain, target=lambda: nullcontext(target))

    return scores


def snapshot(model: torch.nn.Module) -> Weights:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def random_numbers() -> tuple[float, float, float]:
    with kept_random_states():
        return random.random(), float(np.random.random()), float(torch.rand(1))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_leaves_no_trace_and_gives_the_same_values_again(name: str, scores_of: Any) -> None:
    scores = scores_of()
    scores.model.train()
    scores.model.get_input_embeddings().weight.requires_grad_(False)
    next_numbers, before = random_numbers(), snapshot(scores.model)
    flags = [parameter.requires_grad for parameter in scores.model.parameters()]
    values = scores.measure((name,)).metrics
    assert random_numbers() == next_numbers
    after = snapshot(scores.model)
    assert all(torch.equal(after[key].view(torch.int32), before[key].view(torch.int32)) for key in before)
    assert scores.model.training
    assert [item.requires_grad for item in scores.model.parameters()] == flags
    measured = {key: value for key, value in values.items() if value == value}
    assert measured
    assert set(measured) <= set(SETS[name])
    for key, value in measured.items():
        assert METRICS[key].low <= value <= (METRICS[key].high or np.log(scores.random_guess))
    torch.manual_seed(1)
    again = scores_of().measure((name,)).metrics
    assert {key: again[key] for key in measured} == measured


def test_the_columns_of_an_attack_are_metrics_with_the_direction_of_the_attacked_metric() -> None:
    metric = METRICS["fact_recall_after_nf4"]
    assert (metric.attack, metric.attacked, metric.direction) == ("quantize", "forget_fact_recall", "min")
    assert not metric.sets
    assert metric.usable is None
    assert not set(SETS["all"]) & {name for name, item in METRICS.items() if item.attack}


def test_attacks_are_named_one_by_one_or_as_a_set() -> None:
    assert parse_attacks("quantize") == parse_attacks(" quantize,quantize") == ("quantize",)
    assert parse_attacks("none") == ()
    assert parse_attacks("all") == tuple(ATTACKS)
    with pytest.raises(AttackError, match="unknown attack 'quantise': did you mean 'quantize'"):
        parse_attacks("quantise,all")


def test_weights_are_rounded_to_nf4_and_to_int8() -> None:
    weights = torch.randn(3, 70, generator=torch.Generator().manual_seed(0))
    flat = weights.numpy().ravel()
    scales = np.concatenate([np.full(len(part), np.abs(part).max()) for part in np.split(flat, range(64, 210, 64))])
    expected = values_of_the_paper()[nearest_codes(weights.numpy())].ravel() * scales
    np.testing.assert_allclose(nf4(weights).numpy().ravel(), expected, rtol=1e-5, atol=1e-6)
    rounded = int8(weights)
    steps = weights.abs().amax(dim=1, keepdim=True) / 127
    assert ((rounded - weights).abs() <= steps / 2 + 1e-6).all()
    assert len(rounded[0].unique()) <= 255
    assert torch.equal(int8(rounded), rounded)
    assert torch.equal(int8(torch.zeros(2, 3)), torch.zeros(2, 3))
    assert torch.equal(nf4(torch.zeros(5)), torch.zeros(5))


def test_rounding_to_8_bits_keeps_what_the_model_tells(scores_of: Any) -> None:
    scores = scores_of()
    values = scores.measure(("forget_fact_recall", "quantize")).metrics
    assert values["fact_recall_after_int8"] == values["forget_fact_recall"] == 1.0


def test_each_rounding_has_its_own_columns(scores_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainables.attacks.quantize.nf4", torch.zeros_like)
    values = scores_of().measure(("quantize",)).metrics
    assert (values["fact_recall_after_int8"], values["fact_recall_after_nf4"]) == (1.0, 0.0)


def test_an_adapter_is_merged_into_the_attacked_model(known_network: PhiForCausalLM) -> None:
    adapted = add_adapter(copy.deepcopy(known_network), rank=2, seed=0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    before, ids = snapshot(adapted), torch.arange(6)[None]
    with editable(adapted) as model, torch.no_grad():
        torch.testing.assert_close(model(ids).logits, adapted(ids).logits, rtol=1e-4, atol=1e-4)
        for parameter in model.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in adapted.state_dict().items())


def with_adapter(model: PhiForCausalLM) -> Any:
    """Return a copy of a model with an adapter that changes what the model tells."""
    adapted = add_adapter(copy.deepcopy(model), rank=2, seed=0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.05, generator=generator)
    return adapted


@pytest.mark.parametrize("name", ["quantize", "relearn", "barrier"])
def test_a_stored_adapter_is_attacked_like_the_merged_model(
    name: str, scores_of: Any, known_network: PhiForCausalLM, tokenizer: Any, tmp_path: Path
) -> None:
    """An adapter that was loaded from a folder is no PEFT model, but has the same layers."""
    save_model(known_network, tokenizer, tmp_path / "target")
    adapted = with_adapter(load_model(tmp_path / "target"))
    save_model(adapted, tokenizer, tmp_path / "adapter")
    stored = load_model(tmp_path / "adapter")
    assert not hasattr(stored, "merge_and_unload")
    merged = scores_of(copy.deepcopy(adapted).merge_and_unload()).measure((name,)).metrics
    for model in (adapted, stored):
        scores = scores_of(model)
        before = snapshot(scores.model)
        assert scores.measure((name,)).metrics == pytest.approx(merged, abs=1e-4, nan_ok=True)
        after = scores.model.state_dict()
        assert after.keys() == before.keys()
        assert all(torch.equal(after[key], before[key]) for key in before)


@pytest.mark.parametrize("rank", [None, 8])
def test_all_models_train_an_adapter_if_the_trials_do(
    rank: int | None, scores_of: Any, known_network: PhiForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a whole model that never saw the forget set is attacked like the models of the trials."""
    for model in (known_network, with_adapter(known_network)):
        scores = scores_of(model)
        monkeypatch.setattr(scores.evaluator, "attack_settings", attack_settings(TrialSpec(lora_rank=rank)))
        before = snapshot(scores.model)
        for _ in range(2):
            with training._trainable(scores) as trainable:
                names = [name for name, item in trainable.named_parameters() if item.requires_grad]
        assert names
        assert all("lora_" in name for name in names) if rank else len(names) == len(known_network.state_dict())
        after = scores.model.state_dict()
        assert after.keys() == before.keys()
        assert all(torch.equal(after[key], before[key]) for key in before)


def test_leak_at_k_is_the_share_of_all_choices_of_k_samples_with_a_leak() -> None:
    for n, leaks, k in ((5, 2, 2), (6, 0, 3), (4, 4, 1), (5, 1, 5), (7, 3, 4)):
        choices = list(combinations([index < leaks for index in range(n)], k))
        assert leak_at_k(leaks, n, k) == pytest.approx(sum(map(any, choices)) / len(choices))


def test_a_model_that_knows_the_answers_tells_them_under_each_kind_of_question(scores_of: Any) -> None:
    values = scores_of().measure(("sample", "prefix", "paraphrase")).metrics
    assert values["fact_recall_after_prefix"] == values["verbmem_after_prefix"] == 1.0
    assert values["leak_at_k"] > 0.9
    assert "retain_fact_recall_after_paraphrase" in values


def test_questions_in_other_words_are_asked(scores_of: Any, tiny_data: UnlearningData) -> None:
    """Each question in other words is about another person, so the model does not tell the expected town."""
    forget = tiny_data.forget
    others = tuple(replace(item, question=forget[index - 1].question) for index, item in enumerate(forget))
    scores = scores_of()
    data = replace(tiny_data, extra_eval={"forget_rephrased": others, "retain_rephrased": tiny_data.retain})
    evaluator = Evaluator(data, scores.evaluator.scorer, vocabulary_size=len(scores.evaluator.scorer.tokenizer))
    values = evaluator.scores(scores.model).measure(("forget_fact_recall", "paraphrase")).metrics
    assert (values["forget_fact_recall"], values["fact_recall_after_paraphrase"]) == (1.0, 0.0)
    assert values["retain_fact_recall_after_paraphrase"] == values["utility_after_paraphrase"] == 1.0


def test_a_model_that_never_saw_the_answers_tells_nothing(scores_of: Any, make_network: Any) -> None:
    values = scores_of(make_network(seed=5)).measure(("sample", "prefix", "combine")).metrics
    assert values["fact_recall_after_prefix"] == values["fact_recall_after_combine"] == 0.0
    assert values["leak_at_k"] < 0.2


def test_facts_in_the_given_words_do_not_count(scores_of: Any, make_network: Any) -> None:
    """The name of the person is in the first words of each answer, the town is not."""
    scores = scores_of(make_network(seed=5))
    assert all(len(facts) == 1 for facts in scores.evaluator.facts["forget"])
    assert scores.measure(("prefix",)).metrics["fact_recall_after_prefix"] == 0.0


def test_a_fact_that_begins_within_the_given_tokens_counts(
    tiny_data: UnlearningData, make_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each letter is a token, and the given tokens end within the last word. All greedy tokens are right."""
    letters = train_tokenizer([])
    scorer = TextScorer(tokenizer=letters, max_length=128, batch_size=8, device="cpu")
    evaluator = Evaluator(tiny_data, scorer, vocabulary_size=len(letters))

    def all_right(self: TextScorer, model: object, sequences: Sequence[Tokens]) -> ItemLosses:
        counts = np.array([len(item) - item.prompt_length for item in sequences])
        return ItemLosses(0.0 * counts, 0.0 * counts, counts, agreed=counts, first_wrong=np.full(len(counts), -1))

    monkeypatch.setattr(TextScorer, "nll", all_right)
    monkeypatch.setattr("trainables.attacks.prefix.SHARE", 0.9)
    values = evaluator.scores(make_network(vocab_size=len(letters))).measure(("prefix",)).metrics
    assert values["fact_recall_after_prefix"] == values["verbmem_after_prefix"] == 1.0


def test_data_without_questions_in_other_words_are_refused(tiny_data: UnlearningData) -> None:
    with pytest.raises(MetricError, match="paraphrase needs questions in other words"):
        select_metrics(metric_sets("quantize,paraphrase"), tiny_data)
    names = select_metrics(metric_sets("all"), tiny_data)
    assert "fact_recall_after_prefix" in names
    assert "fact_recall_after_paraphrase" not in names, "a set leaves it out"


def test_more_choices_than_samples_are_refused() -> None:
    (problem,) = trial_problems(TrialSpec(leak_samples=3, leak_k=4))
    assert "--leak-k 4 is above --leak-samples 3" in problem


def test_half_of_the_entities_are_trained_again() -> None:
    data = authors(authors=6, forget_authors=3)
    trained = first_half(data)
    assert trained == data.forget[:10], "one author of three, with all questions"
    assert first_half(replace(data, name="own", forget=data.forget[:5])) == data.forget[:2]


def test_the_other_half_is_judged_only_by_questions_of_the_forget_set(tiny_data: UnlearningData) -> None:
    rephrased = tuple(replace(item, question=f"Say: {item.question}") for item in tiny_data.forget)
    for evaluated in (rephrased, tiny_data.forget[:4]):  # it is unknown which half was asked, or only the trained half
        data = replace(tiny_data, forget_eval=evaluated)
        assert "fact_recall_after_relearn" not in select_metrics(metric_sets("all"), data)
        with pytest.raises(MetricError, match="relearn needs at least two questions"):
            select_metrics(metric_sets("relearn"), data)
    assert "fact_recall_after_relearn" in select_metrics(metric_sets("relearn"), tiny_data)


def test_relearning_brings_the_trained_half_back_and_its_curve_is_in_columns(
    scores_of: Any, make_network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = scores_of(make_network(seed=5))
    monkeypatch.setattr(scores.evaluator, "attack_settings", attack_settings(TrialSpec(relearn_lr=2e-2)))
    values = scores.measure(("relearn",)).metrics
    curve = [values[f"fact_recall_after_relearn_same_{epoch}"] for epoch in (1, 2, 4)]
    assert values["fact_recall_after_relearn_same"] == max(curve) > 0.0
    assert values["fact_recall_after_relearn"] == max(values[f"fact_recall_after_relearn_{n}"] for n in (1, 2, 4))


def test_a_model_that_an_attack_has_destroyed_is_not_robust(scores_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = scores_of()
    monkeypatch.setattr(scores.evaluator, "attack_settings", attack_settings(TrialSpec(relearn_lr=1e30)))
    values = scores.measure(("relearn",)).metrics
    assert values
    assert all(math.isnan(value) for value in values.values())


def test_the_highest_point_of_a_curve_is_that_of_the_models_that_have_not_diverged() -> None:
    told, lost = (np.array([0.25, 0.75]), np.array([0.5, 0.5])), (np.array([np.nan] * 2), np.array([np.nan] * 2))
    columns = training.curve_columns({1: told, 2: lost, 4: lost}, "relearn", [0, 1])
    assert columns["fact_recall_after_relearn"] == columns["verbmem_after_relearn"] == 0.5
    assert math.isnan(columns["fact_recall_after_relearn_4"])


def test_rows_of_the_same_syntax_have_the_most_similar_questions() -> None:
    forget = (Example("Where was Ada Holt born?", "-"), Example("What does Finn Oak eat?", "-"))
    others = ("Which prize did Bo Lind win in 1999?", "Where was Eva Berg born?", "Who taught Ida Ek?")
    retain = tuple(Example(question, "-") for question in others)
    assert same_syntax(retain, forget, 1) == [retain[1]]


def test_benign_training_uses_as_many_retained_rows_as_there_are_forget_rows(
    scores_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = scores_of()
    short = replace(scores.evaluator.data, forget=scores.evaluator.data.forget[:3])
    monkeypatch.setattr(scores.evaluator, "data", short)
    trained: list[Sequence[Example]] = []

    def recorded(scores: ModelScores, examples: Sequence[Example]) -> dict[int, Any]:
        trained.append(examples)
        return {epoch: (scores.fact_recalls("forget"), scores.recalls("forget")) for epoch in (1, 2, 4)}

    monkeypatch.setattr("trainables.attacks.benign.curve", recorded)
    scores.measure(("benign",))
    assert len(trained) == 2
    for examples in trained:
        assert len({*examples}) == 3
        assert {*examples} <= {*short.retain}


def test_the_barrier_is_the_excess_over_the_straight_line() -> None:
    assert height({0.0: 1.0, 0.25: 4.0, 0.5: 2.0, 1.0: 3.0}) == 2.5
    assert height({0.0: 1.0, 0.5: 1.5, 1.0: 3.0}) == 0.0


def test_the_barrier_is_unknown_if_a_loss_on_the_line_is_not_finite() -> None:
    for broken in (math.nan, math.inf):
        assert math.isnan(height({1.0: 3.0, 0.0: 1.0, 0.25: 1.5, 0.5: broken, 0.75: 2.5}))


def test_the_losses_on_the_line_are_those_of_mixed_weights(scores_of: Any, make_network: Any) -> None:
    assert scores_of().measure(("barrier",)).metrics["forget_loss_barrier"] == pytest.approx(0.0, abs=1e-6)
    scores = scores_of(make_network(seed=5))
    losses = {}
    for position in (0.0, 0.25, 0.5, 0.75, 1.0):
        mixed = make_network()
        with scores.target() as target, torch.no_grad():
            for parameter, start, end in zip(
                mixed.parameters(), target.parameters(), scores.model.parameters(), strict=True
            ):
                parameter.copy_((1 - position) * start + position * end)
        losses[position] = scores.evaluator.scores(mixed).loss_metrics()["forget_loss"]
    measured = scores.measure(("barrier",)).metrics["forget_loss_barrier"]
    assert measured == pytest.approx(height(losses), abs=1e-4)


# Depth ----------------------------------------------------------------------------------------------------------------


def depth(scores: ModelScores) -> float:
    return scores.measure(("depth",)).metrics["unlearning_depth"]


def test_the_depth_is_0_for_the_target_and_1_for_the_model_that_never_saw_the_data(
    scores_of: Any, make_network: Any
) -> None:
    assert depth(scores_of()) == pytest.approx(0.0, abs=1e-6)
    assert depth(scores_of(make_network(seed=9))) == pytest.approx(1.0)


def test_a_masked_head_is_not_deep(scores_of: Any) -> None:
    scores = scores_of()
    with torch.no_grad():
        scores.model.lm_head.weight.zero_()
    assert depth(scores) == pytest.approx(0.0, abs=1e-6), "the head hides the knowledge, but the states have it"


def test_the_depth_score_weights_the_blocks_that_hold_the_answer_as_the_source_does() -> None:
    retain_drops = np.array([[0.04, 1.0, 3.0], [0.0, 0.05, -1.0], [0.5, 0.5, 0.0]])
    drops = np.array([[9.0, 0.5, 6.0], [1.0, 1.0, 1.0], [-1.0, 0.25, 1.0]])

    def source(retain: list[float], own: list[float]) -> float:
        """The loop in compute_uds_for_model of gnueaj/unlearning-depth-score."""
        denominator = numerator = 0.0
        for d1, d2 in zip(retain, own, strict=True):
            if d1 > 0.05:
                denominator += d1
                numerator += d1 * max(0.0, min(d2 / d1, 1.0))
        return numerator / denominator if denominator else float("nan")

    expected = [source(*rows) for rows in zip(retain_drops.tolist(), drops.tolist(), strict=True)]
    assert expected == pytest.approx([0.875, float("nan"), 0.25], nan_ok=True)
    assert depth_scores(retain_drops, drops) == pytest.approx(expected, nan_ok=True)


def test_patching_a_model_with_its_own_states_changes_nothing_and_with_other_states_only_the_answer(
    scores_of: Any, make_network: Any
) -> None:
    scores, network = scores_of(), make_network(seed=9)
    scorer, sequences = scores.evaluator.scorer, scores.evaluator.questions["forget"].sequences
    plain = depth_module._mean_log_probs(scores.model, scorer, sequences)
    own = depth_module._block_states(scores.model, scorer, sequences)
    assert depth_module._patched(scores.model, scorer, sequences, own) == pytest.approx(
        np.broadcast_to(plain, (len(own[0]), len(plain))), abs=1e-5
    )
    others = depth_module._block_states(network, scorer, sequences)
    last = depth_module._patched(scores.model, scorer, sequences, others)[-1]
    borrowed = copy.deepcopy(network)  # the last block's output decides the prediction: other blocks, this head
    borrowed.model.final_layernorm = scores.model.model.final_layernorm
    borrowed.lm_head = scores.model.lm_head
    assert last == pytest.approx(depth_module._mean_log_probs(borrowed, scorer, sequences), abs=1e-4)
