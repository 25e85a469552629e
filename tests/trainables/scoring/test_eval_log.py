"""A TOFU evaluation log by hand, whose aggregates are exact fractions, and the authors' published Phi-1.5 logs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import hmean

from tests.facts import assert_names
from trainables.metrics.rouge import rouge_l_recall
from trainables.scoring.eval_log import LOG_KEYS, EvalLog, EvalLogError, evaluate_log, read_eval_log
from trainables.scoring.item_log import by_index, write_item_log
from trainables.scoring.open_unlearning import tofu_eval, tofu_summary

Log = dict[str, Any]


def loss(probability: float) -> float:
    return -math.log(probability)


def part(*items: tuple[float, float, list[float], float]) -> Log:
    """Return a part. An item is (probability of the answer, of its paraphrase, of the perturbed answers; recall)."""
    return {
        "avg_gt_loss": {str(i): loss(item[0]) for i, item in enumerate(items)},
        "avg_paraphrased_loss": {str(i): loss(item[1]) for i, item in enumerate(items)},
        "average_perturb_loss": {str(i): [loss(p) for p in item[2]] for i, item in enumerate(items)},
        "rougeL_recall": {str(i): item[3] for i, item in enumerate(items)},
    }


RETAIN, AUTHORS, FACTS = "eval_log.json", "eval_real_author_wo_options.json", "eval_real_world_wo_options.json"
FORGET = "eval_log_forget.json"
PERTURBED, RECALL = "average_perturb_loss", "rougeL_recall"


def by_hand() -> Log:
    return {
        # Truth ratios 0.2/0.5 = 0.4 and 0.8/0.4 = 2.
        RETAIN: part((0.5, 0.5, [0.1, 0.4], 1.0), (0.25, 0.4, [0.8, 0.8], 0.5)),
        # 0.25 of 0.5 and 0.1 of 0.5; truth ratios 0.1/0.25 = 0.4 and 0.2/0.25 = 0.8.
        AUTHORS: part((0.25, 0.25, [0.05, 0.2], 0.0), (0.1, 0.25, [0.2, 0.2], 1.0)),
        # 0.5 of 2; truth ratio 0.5/1.
        FACTS: part((0.5, 1.0, [0.5, 0.5, 0.5], 0.25)),
        # Truth ratios 2, 1/2, 1.
        FORGET: part((1.0, 0.25, [0.5], 0.5), (0.5, 0.5, [0.25], 0.25), (0.25, 0.3, [0.3], 0.0)),
    }


EXPECTED = {
    "retain": (Fraction(3, 8), Fraction(3, 4), Fraction(3, 10)),
    "real_authors": (Fraction(7, 20), Fraction(1, 2), Fraction(2, 5)),
    "world_facts": (Fraction(1, 4), Fraction(1, 4), Fraction(1, 2)),
    "forget": (Fraction(7, 12), Fraction(1, 4), Fraction(2, 3)),
}
UTILITY = 9 / sum(1 / score for name in ("retain", "real_authors", "world_facts") for score in EXPECTED[name])


def read(directory: Path, log: Log, name: str = "log.json") -> EvalLog:
    (directory / name).write_text(json.dumps(log))
    return read_eval_log(directory / name)


def assert_by_hand(found: dict[str, Any]) -> None:
    for name, scores in EXPECTED.items():
        exact = dict(zip(("probability", "rouge_l_recall", "truth_ratio"), map(float, scores), strict=True))
        assert {score: found[name][score] for score in exact} == pytest.approx(exact, rel=1e-14)
    assert found["model_utility"] == pytest.approx(float(UTILITY), rel=1e-14)


def test_the_aggregates_are_those_by_hand(tmp_path: Path) -> None:
    found = evaluate_log(read(tmp_path, by_hand()))
    assert_by_hand(found)
    assert (found["forget_quality"], found["forget_quality_statistic"]) == (None, None)
    assert [(found[name]["repetition"], found[name]["longest_loop"]) for name in EXPECTED] == [(None, None)] * 4
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_log_in_the_format_of_open_unlearning_has_the_same_aggregates(tmp_path: Path) -> None:
    log = read(tmp_path, by_hand())
    content = tofu_eval(log, evaluate_log(log, log))
    prefixes = {"retain": "retain", "real_authors": "ra", "world_facts": "wf", "forget": "forget"}
    for name, (probability, recall, ratio) in EXPECTED.items():
        is_extra = name in ("real_authors", "world_facts")
        names = ("Q_A_Prob_normalised" if is_extra else "Q_A_Prob", "Q_A_ROUGE", "Truth_Ratio")
        found = [content[f"{prefixes[name]}_{metric}"]["agg_value"] for metric in names]
        assert found == pytest.approx([float(probability), float(recall), float(ratio)], rel=1e-14)
    assert content["model_utility"] == {"agg_value": pytest.approx(float(UTILITY), rel=1e-14)}
    assert content["forget_quality"] == {"agg_value": 1.0}
    assert content["forget_Q_A_Prob"]["value_by_index"]["1"] == pytest.approx({"prob": 0.5, "avg_loss": loss(0.5)})
    assert tofu_summary(content) == {name: item["agg_value"] for name, item in content.items()}


def test_values_that_are_not_finite_are_null_in_an_item_log(tmp_path: Path) -> None:
    write_item_log(tmp_path / "log.json", {"part": {"loss": by_index(np.array([math.nan, math.inf, 0.5]))}})
    text = (tmp_path / "log.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"part": {"loss": {"0": None, "1": None, "2": 0.5}}}


def in_lists(log: Log) -> Log:
    """Return a log with lists as columns, keyed by position."""
    return {name: {column: list(values.values()) for column, values in part.items()} for name, part in log.items()}


def keyed_backwards_with_other_entries(log: Log) -> Log:
    """Return a log in which only the index says which values belong together."""
    for part in log.values():
        part["avg_gt_loss"] = dict(reversed(part["avg_gt_loss"].items()))
        part[PERTURBED] = {index: dict(zip("abc", losses, strict=False)) for index, losses in part[PERTURBED].items()}
    log[RETAIN]["num_token_gt"] = {"7": None}
    return dict(reversed(log.items())) | {"another_part": 1}


def with_texts_for_recalls(log: Log) -> Log:
    del log[RETAIN][RECALL]
    log[RETAIN]["generated_text"] = {
        "0": ["Question: who?", "Answer: It was Ada Vex. The family chose", "It was Ada Vex."],
        "1": ["Question: when?", "Answer: in May", "May 1958"],
    }
    return log


@pytest.mark.parametrize("change", [in_lists, keyed_backwards_with_other_entries, with_texts_for_recalls])
def test_another_form_of_a_log_has_the_same_aggregates(tmp_path: Path, change: Callable[[Log], Log]) -> None:
    assert_by_hand(evaluate_log(read(tmp_path, change(by_hand()))))


MISSING = object()


@pytest.mark.parametrize(
    ("place", "value", "facts"),
    [
        ((FACTS,), MISSING, (f"missing {FACTS}", FORGET)),
        ((FORGET, PERTURBED), MISSING, (FORGET, f"missing {PERTURBED}", "avg_gt_loss")),
        ((RETAIN, "avg_gt_loss"), {}, (f"{RETAIN}, avg_gt_loss:", "one item")),
        ((AUTHORS, PERTURBED, "1"), [1.0, math.nan], (f"{AUTHORS}, {PERTURBED}, item 1, item 1:", "NaN")),
        ((RETAIN, "avg_gt_loss", "0"), 10**400, ("avg_gt_loss, item 0", "got 1000")),
        ((RETAIN, RECALL, "0"), 92.9, (f"{RECALL}, item 0:", "0 to 1", "92.9")),
        ((RETAIN, "generated_text"), {"0": ["question", "answer"]}, ("generated_text, item 0:", "three")),
        ((RETAIN, "avg_gt_loss"), [1.0] * 300, ("298 items", "10, 100, 101, 102, 103 and 293 more")),
    ],
)
def test_a_malformed_log_is_one_line_with_the_file_and_the_place(
    tmp_path: Path, place: tuple[str, ...], value: object, facts: tuple[str, ...]
) -> None:
    log = inner = by_hand()
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    if value is MISSING:
        del inner[place[-1]]
    with pytest.raises(EvalLogError) as caught:
        read(tmp_path, log)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'log.json'}: ")
    assert "\n" not in message
    assert len(message) < 400 + len(str(tmp_path))
    assert_names(message, *facts)


@pytest.mark.parametrize(
    ("content", "fact"), [("{", "JSON"), ("[1]", "got [1]"), ("\udcff", "JSON"), (None, "No such file")]
)
def test_a_file_without_a_json_object_is_an_error(tmp_path: Path, content: str | None, fact: str) -> None:
    path = tmp_path / "log.json"
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(EvalLogError) as caught:
        read_eval_log(path)
    assert_names(caught.value, path, fact)


def test_a_retain_log_of_another_forget_set_is_an_error(tmp_path: Path) -> None:
    other = by_hand() | {FORGET: part((0.5, 0.1, [0.9], 0.0))}
    with pytest.raises(EvalLogError, match=r"other\.json .*\(1\) .*log\.json \(3\)"):
        evaluate_log(read(tmp_path, by_hand()), read(tmp_path, other, "other.json"))


# Published logs ------------------------------------------------------------------------------------------------------

DIRECTORY = Path(os.environ.get("TOFU_EVAL_LOGS_DIR") or Path(__file__).parents[4] / "shared/data/tofu_eval_logs")
LOGS = {"full": DIRECTORY / "phi_full.json", "retain90": DIRECTORY / "phi_retain90.json"}

published = pytest.mark.skipif(
    not all(path.is_file() for path in LOGS.values()),
    reason=f"no published TOFU logs in {DIRECTORY} (set TOFU_EVAL_LOGS_DIR)",
)

# As printed by the authors' own aggregate_eval_stat.py on these files.
PUBLISHED_UTILITY = {"full": 0.5220737132035151, "retain90": 0.5319909117798324}
PUBLISHED = {  # probability, ROUGE-L recall, truth ratio
    ("full", "retain"): (0.9260884160508499, 0.9292525097192792, 0.482683008320846),
    ("full", "real_authors"): (0.3773603259680648, 0.4156666666666667, 0.4560090213398624),
    ("full", "world_facts"): (0.40899845221380016, 0.7773504273504274, 0.4923369138766094),
    ("full", "forget"): (0.9282394842423188, 0.9248612622630048, 0.48335558566802284),
    ("retain90", "retain"): (0.9231140312552543, 0.9200431185901895, 0.4847391599677),
    ("retain90", "real_authors"): (0.3841872783056456, 0.47533333333333333, 0.46383610879663545),
    ("retain90", "world_facts"): (0.4080884361892155, 0.7556980056980056, 0.4882634687986231),
    ("retain90", "forget"): (0.1349069615867286, 0.4278674282179278, 0.6288417132144549),
}


@pytest.fixture(scope="module")
def found() -> dict[str, Log]:
    """The aggregates of both logs, each with the forget quality relative to the retain model."""
    logs = {name: read_eval_log(path) for name, path in LOGS.items()}
    return {name: evaluate_log(log, retain_log=logs["retain90"]) for name, log in logs.items()}


@published
@pytest.mark.parametrize("name", LOGS)
def test_the_aggregates_are_the_published_ones(found: dict[str, Log], name: str) -> None:
    assert found[name]["model_utility"] == pytest.approx(PUBLISHED_UTILITY[name], rel=0, abs=1e-9)
    for part in LOG_KEYS:
        expected = dict(zip(("probability", "rouge_l_recall", "truth_ratio"), PUBLISHED[name, part], strict=True))
        assert {score: found[name][part][score] for score in expected} == pytest.approx(expected, rel=0, abs=1e-9)


@published
def test_forget_quality_is_the_published_one_and_1_for_the_retain_model_itself(found: dict[str, Log]) -> None:
    assert found["full"]["forget_quality"] == pytest.approx(2.1942743021891237e-16, rel=1e-9)
    assert found["full"]["forget_quality_statistic"] == pytest.approx(104 / 300, rel=0, abs=1e-12)
    assert found["retain90"]["forget_quality"] == 1.0


@published
@pytest.mark.parametrize("name", LOGS)
def test_the_published_logs_in_the_format_of_open_unlearning_aggregate_by_its_formulas(
    found: dict[str, Log], name: str
) -> None:
    """Recompute each aggregate from value_by_index, with the formulas of open-unlearning (commit d3d7cf9e)."""
    content = tofu_eval(read_eval_log(LOGS[name]), found[name])

    def values(metric: str, key: str) -> np.ndarray:
        return np.array([item[key] for item in content[metric]["value_by_index"].values()])

    parts = []
    for prefix in ("retain", "ra", "wf", "forget"):
        probability = f"{prefix}_Q_A_Prob_normalised" if prefix in ("ra", "wf") else f"{prefix}_Q_A_Prob"
        ratios = values(f"{prefix}_Truth_Ratio", "score")
        is_forget = prefix == "forget"
        ratio = np.minimum(ratios, 1 / (ratios + 1e-10)) if is_forget else np.maximum(0, 1 - ratios)
        recomputed = [values(probability, "prob"), values(f"{prefix}_Q_A_ROUGE", "rougeL_recall"), ratio]
        names = (probability, f"{prefix}_Q_A_ROUGE", f"{prefix}_Truth_Ratio")
        aggregates = [content[metric]["agg_value"] for metric in names]
        assert [part.mean() for part in recomputed] == pytest.approx(aggregates, abs=1e-9)
        parts += [] if is_forget else aggregates
    assert content["model_utility"]["agg_value"] == pytest.approx(hmean(parts), abs=1e-12)
    assert tofu_summary(content)["model_utility"] == pytest.approx(PUBLISHED_UTILITY[name], rel=0, abs=1e-9)


@published
@pytest.mark.parametrize("part", LOG_KEYS)
def test_rouge_of_the_logged_texts_is_the_logged_rouge_unless_a_word_has_an_accent(part: str) -> None:
    items = json.loads(LOGS["retain90"].read_text())[LOG_KEYS[part]]
    texts = list(items["generated_text"].values())  # question, generated answer, reference
    recomputed = rouge_l_recall([reference for _, _, reference in texts], [generated for _, generated, _ in texts])
    logged = np.array([items["rougeL_recall"][index] for index in items["generated_text"]])
    # The package rouge_score, with which the logs were made, cuts "Beltrán" into two words.
    accents = ["á" in reference + generated or "í" in reference for _, generated, reference in texts]
    assert not (recomputed != logged)[~np.array(accents)].any()
