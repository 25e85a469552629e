"""Every metric of a tiny model against its formula written out here: one text at a time, float64, plain loops."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import fmean, harmonic_mean
from typing import Any

import numpy as np
import pytest
import torch
from rouge_score.rouge_scorer import RougeScorer
from scipy.stats import ks_2samp
from sklearn.metrics import roc_auc_score
from transformers import PhiForCausalLM

from search_spaces.common.words import units
from tests.facts import assert_names
from tests.trainables.models.test_nf4 import nearest_codes
from tests.trainables.scoring.conftest import MakeEvaluator
from trainables import plugins
from trainables.data.examples import Example, UnlearningData
from trainables.metrics.registry import METRICS, SETS
from trainables.metrics.repetition import longest_loop, repetition
from trainables.scoring.base import MetricError, MetricFailed
from trainables.scoring.eval_log import evaluate_log, read_eval_log
from trainables.scoring.item_log import write_item_log
from trainables.scoring.language import Evaluator
from trainables.text.tokens import encode

NAMES = tuple(
    name
    for name, metric in METRICS.items()
    if "language" in metric.modalities and not metric.loss and not metric.attack and name != "knowmem"
)


@pytest.fixture(scope="module")
def data(tiny_data: UnlearningData) -> UnlearningData:
    """Return the tiny problem with a holdout set and TOFU's further sets, all of different sizes."""
    # Some of it is known, so that no attack tells the two sides apart without fail.
    unknown = tuple(Example(f"Where did {name} go?", f"{name} went away") for name in ("Ada", "Finn"))
    holdout = (*unknown, *tiny_data.retain[2:5])
    authors = tuple(replace(item, paraphrased_answer=item.answer) for item in tiny_data.retain[:5])
    facts = tuple(replace(item, paraphrased_answer=item.answer) for item in tiny_data.forget[2:6])
    sets = {"real_authors": authors, "world_facts": facts, **_rephrased(tiny_data)}
    return replace(tiny_data, extra_eval=sets, holdout=holdout)


def _rephrased(data: UnlearningData) -> dict[str, tuple[Example, ...]]:
    return {
        "forget_rephrased": tuple(replace(item, question=f"{item.question} In which town?") for item in data.forget),
        "retain_rephrased": tuple(
            replace(item, question=item.question.replace("What", "Which")) for item in data.retain
        ),
    }


@pytest.fixture(scope="module")
def evaluator(make_evaluator: MakeEvaluator, data: UnlearningData) -> Evaluator:
    return make_evaluator(data)


@pytest.fixture(scope="module")
def retained(known_network: PhiForCausalLM, make_network: Any) -> PhiForCausalLM:
    """Return another mixture, which stands for the model that was trained without the forget set."""
    other: PhiForCausalLM = make_network(seed=3)
    with torch.no_grad():
        for parameter, known in zip(other.parameters(), known_network.parameters(), strict=True):
            parameter.copy_(0.3 * known + 0.7 * parameter)
    return other


class ByHand:
    """The values of one model, each from a forward pass of its own in float64."""

    def __init__(self, model: PhiForCausalLM, tokenizer: Any) -> None:
        self.model = copy.deepcopy(model).double().eval()
        self._tokenizer = tokenizer

    def _logits(self, ids: Sequence[int]) -> torch.Tensor:
        with torch.no_grad():
            return self.model(input_ids=torch.tensor([list(ids)])).logits[0]

    def log_p(self, example: Example, answer: str | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the log-probabilities ``(T, V)`` at each answer token and EOS, and these tokens."""
        tokens = encode(self._tokenizer, example.question, answer or example.answer, max_length=64)
        log_p = torch.log_softmax(self._logits(tokens.ids)[tokens.prompt_length - 1 : -1], -1).numpy()
        return log_p, np.array(tokens.ids[tokens.prompt_length :])

    def loss(self, example: Example, answer: str | None = None) -> float:
        log_p, ids = self.log_p(example, answer)
        return -float(np.mean([row[token] for row, token in zip(log_p, ids, strict=True)]))

    def ratio(self, example: Example) -> float:
        wrong = [self.loss(example, answer) for answer in example.perturbed_answers]
        return math.exp(self.loss(example, example.paraphrased_answer) - sum(wrong) / len(wrong))

    def chance(self, example: Example) -> float:
        """Return the probability of the right answer among all answers."""
        right = math.exp(-self.loss(example))
        return right / (right + sum(math.exp(-self.loss(example, wrong)) for wrong in example.perturbed_answers))

    def answers(self, examples: Sequence[Example]) -> list[str]:
        """Return greedy answers, generated token by token, at most as long as the longest reference."""
        sequences = [encode(self._tokenizer, item.question, item.answer, max_length=64) for item in examples]
        longest, texts = max(len(item) - item.prompt_length for item in sequences), []
        for item in sequences:
            said: list[int] = []
            while len(said) < longest and (not said or said[-1] != self._tokenizer.eos_token_id):
                said.append(int(self._logits([*item.prompt, *said])[-1].argmax()))
            texts.append(self._tokenizer.decode(said, skip_special_tokens=True).strip())
        return texts

    def recall(self, examples: Sequence[Example]) -> float:
        scorer = RougeScorer(["rougeL"], use_stemmer=True)
        pairs = zip(examples, self.answers(examples), strict=True)
        return fmean([scorer.score(item.answer, text)["rougeL"].recall for item, text in pairs])

    def facts_told(self, examples: Sequence[Example]) -> float:
        """Return the share of facts in the answers. A town is one fact, and each word of a food is a fact."""
        shares = []
        for item, text in zip(examples, self.answers(examples), strict=True):
            new = item.answer.split(maxsplit=3)[3] if " lives in " in item.answer else item.answer.split(maxsplit=2)[2]
            facts = [new] if new[0].isupper() else new.split()
            shares.append(fmean(f" {fact} " in f" {text} " for fact in facts))
        return fmean(shares)

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

    def p(self, example: Example) -> float:
        """Return the probability of the answer without the end token."""
        log_p, ids = (part[:-1] for part in self.log_p(example))
        return math.prod(math.exp(row[token]) for row, token in zip(log_p, ids, strict=True))

    def hits(self, example: Example) -> list[bool]:
        log_p, ids = (part[:-1] for part in self.log_p(example))
        return [bool(row.argmax() == token) for row, token in zip(log_p, ids, strict=True)]


def _utility(own: ByHand, data: UnlearningData) -> float:
    nine = [fmean(math.exp(-own.loss(item)) for item in data.retain_eval)]
    extra = [data.extra_eval["real_authors"], data.extra_eval["world_facts"]]
    nine += [fmean(map(own.chance, part)) for part in extra]
    for part in (data.retain_eval, *extra):
        nine += [own.recall(part), fmean(max(0.0, 1 - own.ratio(item)) for item in part)]
    return harmonic_mean(nine)


def _weighted(own: ByHand, *sets: Sequence[Example]) -> float:
    """Return the mean of the facts told over the items of several sets, whose longest answers differ."""
    return sum(own.facts_told(items) * len(items) for items in sets) / sum(map(len, sets))


def _divergence(own: ByHand, other: ByHand, examples: Sequence[Example]) -> float:
    """Return ``KL(other || own)`` per token."""
    values: list[float] = []
    for item in examples:
        log_q, log_p = own.log_p(item)[0], other.log_p(item)[0]
        values += [min(math.log(log_p.shape[1]), kl) for kl in (np.exp(log_p) * (log_p - log_q)).sum(-1).tolist()]
    return fmean(values)


def _loss_of_answers(own: ByHand, other: ByHand, examples: Sequence[Example]) -> float:
    losses: list[float] = []
    for item, text in zip(examples, own.answers(examples), strict=True):
        assert text
        log_p, ids = other.log_p(item, text)
        losses += [min(math.log(log_p.shape[1]), -row[token]) for row, token in zip(log_p[:-1], ids[:-1], strict=True)]
    return fmean(losses)


def _looping(own: ByHand, other: ByHand, data: UnlearningData) -> float:
    """Return the share of answers that loop, or that the other model finds less likely than other answers."""

    def loss(item: Example, text: str) -> float:
        log_p, ids = other.log_p(item, text)
        return -fmean(row[token] for row, token in zip(log_p[:-1], ids[:-1], strict=True))

    wrong = [[loss(item, other.answer) for other in data.retain_eval] for item in data.forget]
    true = fmean(loss(item, item.answer) for item in data.retain_eval)
    bound = min(np.median([np.quantile(losses, 0.1) for losses in wrong]), true + 1.0)
    looping = []
    for item, text in zip(data.forget, own.answers(data.forget), strict=True):
        share = max(longest_loop([text])[0], repetition([text])[0])
        looping.append(share >= 0.25 or (len(units(text)) >= 4 and loss(item, text) > bound))
    return fmean(looping)


def _weights(model: PhiForCausalLM) -> dict[str, np.ndarray]:
    return {name: value.detach().double().numpy() for name, value in model.named_parameters()}


def _distance(own: ByHand, other: ByHand) -> float:
    mine, theirs = (np.concatenate([value.ravel() for value in _weights(by.model).values()]) for by in (own, other))
    return float(np.linalg.norm(mine - theirs) / np.linalg.norm(theirs))


def _rounded_differently(own: ByHand, other: ByHand) -> float:
    """Return the share of weights in linear layers, except the head, whose NF4 code differs."""
    theirs, different = _weights(other.model), []
    for name, value in _weights(own.model).items():
        if value.ndim == 2 and "embed" not in name and "lm_head" not in name:
            different.append((nearest_codes(value) != nearest_codes(theirs[name])).ravel())
    return float(np.concatenate(different).mean())


def _extracted(hits: list[bool]) -> float:
    return max((len(hits) - start) / len(hits) for start in range(len(hits) + 1) if all(hits[start:]))


def _leak(own: ByHand, other: ByHand, data: UnlearningData) -> float:
    mine, theirs = (1 - model.auc("mia_min_k", data, other) for model in (own, other))
    return 100 * (mine - theirs) / theirs


Formula = Callable[[ByHand, ByHand, UnlearningData], float]
FORMULAS: dict[str, Formula] = {
    "verbmem": lambda own, _, data: own.recall(data.forget),
    "utility": lambda own, _, data: own.recall(data.retain),
    "forget_fact_recall": lambda own, _, data: own.facts_told(data.forget),
    "retain_fact_recall": lambda own, _, data: own.facts_told(data.retain),
    "forget_fact_recall_rephrased": lambda own, _, data: own.facts_told(data.extra_eval["forget_rephrased"]),
    "retain_fact_recall_rephrased": lambda own, _, data: own.facts_told(data.extra_eval["retain_rephrased"]),
    "neighbour_fact_recall": lambda own, _, data: _weighted(
        own, data.extra_eval["real_authors"], data.extra_eval["world_facts"]
    ),
    "retain_kl": lambda own, other, data: _divergence(own, other, data.retain),
    "forget_answer_loss": lambda own, other, data: _loss_of_answers(own, other, data.forget),
    "forget_fluent": lambda own, other, data: 1.0 - _looping(own, other, data),
    "forget_refusals": lambda own, other, data: 0.0,
    "forget_loops": lambda own, other, data: _looping(own, other, data),
    "forget_repetition": lambda own, _, data: repetition(own.answers(data.forget)).mean(),
    "retain_repetition": lambda own, _, data: repetition(own.answers(data.retain)).mean(),
    "forget_longest_loop": lambda own, _, data: longest_loop(own.answers(data.forget)).mean(),
    "retain_longest_loop": lambda own, _, data: longest_loop(own.answers(data.retain)).mean(),
    "truth_ratio": lambda own, _, data: fmean(max(0.0, 1 - own.ratio(item)) for item in data.retain_eval),
    "forget_truth_ratio": lambda own, _, data: fmean(min(own.ratio(i), 1 / own.ratio(i)) for i in data.forget_eval),
    "forget_probability": lambda own, _, data: fmean(math.exp(-own.loss(item)) for item in data.forget),
    "retain_probability": lambda own, _, data: fmean(math.exp(-own.loss(item)) for item in data.retain_eval),
    "forget_quality": lambda own, other, data: (
        ks_2samp(*([model.ratio(item) for item in data.forget_eval] for model in (own, other))).pvalue
    ),
    "model_utility": lambda own, _, data: _utility(own, data),
    "extraction_strength": lambda own, _, data: fmean(_extracted(own.hits(item)) for item in data.forget),
    "exact_memorization": lambda own, _, data: fmean(fmean(own.hits(item)) for item in data.forget),
    "leak_probability": lambda own, _, data: fmean(1.0 - (1.0 - own.p(item)) ** 100 for item in data.forget),
    "target_distance": lambda own, other, data: min(1.0, _distance(own, other)),
    "nf4_changed": lambda own, other, data: _rounded_differently(own, other),
    **{name: lambda own, other, data, name=name: own.auc(name, data, other) for name in SETS["mia"]},
    "privleak": _leak,
}


@pytest.fixture(scope="module")
def found(evaluator: Evaluator, half_known: PhiForCausalLM, retained: PhiForCausalLM) -> Any:
    retain = evaluator.reference(retained, key="retain", path="")
    # The other model is also the target that the model is compared with.
    return evaluator.scores(half_known, retain=retain, target=lambda: nullcontext(retained)).measure(NAMES)


def test_the_facts_that_the_retain_model_tells_are_kept_with_its_values(
    evaluator: Evaluator, retained: PhiForCausalLM, tokenizer: Any, data: UnlearningData
) -> None:
    values = evaluator.reference(retained, key="retain", path="").metrics
    assert {*values} == {name for name in SETS["facts"] if not METRICS[name].needs_target}
    own = ByHand(retained, tokenizer)
    assert values == pytest.approx({name: FORMULAS[name](own, own, data) for name in values})


def test_every_metric_asked_for_is_there_with_the_distances_from_ideal_values(found: Any) -> None:
    assert tuple(found.metrics) == NAMES
    distances = {"privleak": 0.0, **dict.fromkeys(SETS["mia"], 0.5)}
    distance_names = {f"{name}_distance" for name in distances}
    assert {*NAMES} == FORMULAS.keys() | distance_names
    for name, ideal in distances.items():
        assert found.metrics[f"{name}_distance"] == abs(found.metrics[name] - ideal)
    assert not [name for names in SETS.values() for name in names if name in distance_names]
    assert found.generation_seconds > 0


@pytest.mark.parametrize("name", FORMULAS)
def test_a_metric_is_its_formula(
    name: str, found: Any, half_known: PhiForCausalLM, retained: PhiForCausalLM, tokenizer: Any, data: UnlearningData
) -> None:
    own, other = ByHand(half_known, tokenizer), ByHand(retained, tokenizer)
    assert math.isfinite(found.metrics[name])
    assert found.metrics[name] == pytest.approx(FORMULAS[name](own, other, data), rel=1e-4)


def test_the_pass_for_the_losses_also_gives_the_metrics_of_each_evaluation(
    evaluator: Evaluator, half_known: PhiForCausalLM, found: Any
) -> None:
    passes: list[object] = []
    handle = half_known.register_forward_hook(lambda *args: passes.append(args))
    try:
        scores = evaluator.scores(half_known)
        scores.loss_metrics()
        loss_passes = len(passes)
        measured = scores.measure_cheap(("default", "extraction_strength", "exact_memorization", "leak_probability"))
    finally:
        handle.remove()
    assert loss_passes == len(passes) > 0
    assert measured == {name: found.metrics[name] for name in measured}
    assert {*measured} == {"extraction_strength", "exact_memorization", "leak_probability"}


def test_the_item_log_has_the_values_from_which_each_mean_can_be_computed_again(found: Any) -> None:
    scores = found.items["scores"]
    per_model = {"forget_quality", "privleak", "target_distance", "nf4_changed", *SETS["mia"]}
    assert {*scores} == {name for name in NAMES if name not in per_model and not name.endswith("_distance")}
    for name, parts in scores.items():
        counts = [part.get("counts", [1] * len(part["totals"])) for part in parts]
        means = [sum(part["totals"]) / sum(count) for part, count in zip(parts, counts, strict=True)]
        assert harmonic_mean(means) == pytest.approx(found.metrics[name], rel=1e-5, abs=1e-6), name
    assert len(scores["model_utility"]) == 9


def test_the_item_log_gives_the_same_metrics_when_read_as_a_published_log(
    evaluator: Evaluator, make_network: Any, tokenizer: Any, tmp_path: Path
) -> None:
    plain, loops = make_network(seed=6), make_network(seed=5)
    with torch.no_grad():
        loops.lm_head.bias[tokenizer(" Oslo").input_ids[-1]] = 1e3  # the only token that this model generates
    retain = evaluator.reference(plain, key="retain", path="")
    scores = ("repetition", "longest_loop", "probability")
    places = {f"{side}_{score}": (side, score) for side in ("forget", "retain") for score in scores}
    places |= {"verbmem": ("forget", "rouge_l_recall"), "utility": ("retain", "rouge_l_recall")}
    places |= {"truth_ratio": ("retain", "truth_ratio"), "forget_truth_ratio": ("forget", "truth_ratio")}
    for name, model in (("retain", plain), ("loops", loops)):
        measured = evaluator.scores(model, retain=retain).measure(("tofu", "default"))
        write_item_log(tmp_path / f"{name}.json", measured.items)
        again = evaluate_log(*(read_eval_log(tmp_path / f"{log}.json") for log in (name, "retain")))
        expected = {name: again[part][score] for name, (part, score) in places.items()}
        expected |= {name: again[name] for name in ("model_utility", "forget_quality")}
        assert {name: measured.metrics[name] for name in expected} == pytest.approx(expected, rel=1e-12)
        assert (measured.metrics["retain_longest_loop"] == 1.0) is (model is loops)


def test_a_metric_that_the_data_cannot_give_is_refused_by_name_and_left_out_of_a_set(
    make_evaluator: MakeEvaluator, make_network: Any
) -> None:
    wanted = ("mia_loss", "model_utility", "forget_quality", "mia", "retain_kl")
    with pytest.raises(MetricError) as caught:
        make_evaluator().scores(make_network()).measure(wanted)
    assert_names(caught.value, *wanted, "holdout", "real_authors and world_facts", "retain model", "the target")
    found = make_evaluator().scores(make_network()).measure(("all",)).metrics
    assert {"verbmem", "forget_probability", "extraction_strength"} <= set(found)
    assert not {*wanted, "privleak"} & set(found)


@pytest.mark.parametrize("has_wrong_answers", [True, False])
def test_wrong_answers_bound_the_garbled_ones_if_the_target_knows_language(
    has_wrong_answers: bool,
    make_evaluator: MakeEvaluator,
    make_network: Any,
    tiny_data: UnlearningData,
    tokenizer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without wrong answers in the data, the answers to other questions bound the garbled ones."""
    monkeypatch.setattr("trainables.scoring.language.knows_language", lambda *_: True)
    network = make_network()
    target, forget, others = ByHand(network, tokenizer), tiny_data.forget, [item.answer for item in tiny_data.retain]

    def loss(example: Example, answer: str) -> float:
        log_p, ids = (part[:-1] for part in target.log_p(example, answer))  # without EOS
        return -float(np.mean([row[token] for row, token in zip(log_p, ids, strict=True)]))

    if has_wrong_answers:
        evaluator = make_evaluator(tiny_data)
        expected = np.quantile([loss(item, wrong) for item in forget for wrong in item.perturbed_answers], 0.1)
    else:
        without = tuple(replace(item, perturbed_answers=()) for item in forget)
        evaluator = make_evaluator(replace(tiny_data, forget=without, forget_eval=without))
        expected = np.median([np.quantile([loss(item, answer) for answer in others], 0.1) for item in forget])
    assert evaluator.garbled_bound(lambda: nullcontext(network)) == pytest.approx(expected, rel=1e-5)


def test_a_failing_metric_of_a_plug_in_is_named_with_its_file_and_line(
    make_evaluator: MakeEvaluator, make_network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from trainables.metrics.metric import Cost, Metric\n"
        "METRICS = Metric(name='mine', label='mine', direction='min', cost=Cost.FORWARD, formula='', citation='',\n"
        "    measure=lambda scores: scores.answers['forget'].lower())\n"
    )
    plugin = plugins.read(path)
    monkeypatch.setattr(plugins, "_active", [plugin])
    monkeypatch.setattr("trainables.scoring.base.METRICS", {"mine": plugin.parts[0].entry})
    with pytest.raises(MetricFailed) as caught:
        make_evaluator().scores(make_network()).measure(("mine",))
    assert_names(caught.value, "metric mine", f"{path}, line 3: AttributeError")


def test_a_failing_attack_of_a_plug_in_is_named_with_its_file_and_line(
    make_evaluator: MakeEvaluator, make_network: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from trainables.attacks.attack import Attack\n"
        "ATTACK = Attack(name='mine', formula='', citation='', cost='', endings={'mine': 'after it'},\n"
        "    run=lambda scores: scores.nothing)\n"
    )
    plugin = plugins.read(path)
    metrics = {metric.name: metric for metric in plugin.parts[0].entry.metrics_from(METRICS)}
    monkeypatch.setattr(plugins, "_active", [plugin])
    monkeypatch.setattr("trainables.scoring.base.METRICS", metrics)
    with pytest.raises(MetricFailed) as caught:
        make_evaluator().scores(make_network()).measure(("verbmem_after_mine",))
    assert_names(caught.value, "attack mine of plug-in", f"{path}, line 3: AttributeError")


def test_answers_that_are_generated_together_are_those_of_each_set_alone(
    make_evaluator: MakeEvaluator, half_known: PhiForCausalLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = make_evaluator()
    alone, together = evaluator.scores(half_known), evaluator.scores(half_known)
    expected = {name: alone.generated[name] for name in ("forget", "retain")}
    together.generate_for(("utility", "forget_fact_recall", "verbmem"))
    monkeypatch.setattr(type(evaluator.scorer), "greedy_answers", None)  # any further generation would fail
    assert alone.recalls("forget").std() > 0
    for name, (texts, recalls) in expected.items():
        assert together.generated[name][0] == texts
        assert together.recalls(name).tolist() == recalls.tolist()
    assert together.generation_seconds > 0
