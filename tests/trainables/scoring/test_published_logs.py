"""The aggregates of the TOFU authors' published Phi-1.5 logs, to 1e-9, and their ROUGE recomputed from the texts.

The logs are found by TOFU_EVAL_LOGS_DIR; test_eval_log.py checks the same without them on a log made by hand.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from trainables.metrics.repetition import longest_loop, repetition
from trainables.metrics.rouge import rouge_l_recall
from trainables.scoring.eval_log import PARTS, evaluate_log, read_eval_log

REPOSITORY = Path(__file__).parents[3]
DIRECTORY = Path(os.environ.get("TOFU_EVAL_LOGS_DIR") or REPOSITORY / "../shared/data/tofu_eval_logs")
LOGS = {"full": DIRECTORY / "phi_full.json", "retain90": DIRECTORY / "phi_retain90.json"}

pytestmark = pytest.mark.skipif(
    not all(path.is_file() for path in LOGS.values()),
    reason=f"no published TOFU logs in {DIRECTORY} (set TOFU_EVAL_LOGS_DIR)",
)

# As printed by the authors' own aggregate_eval_stat.py on these files.
UTILITY = {"full": 0.5220737132035151, "retain90": 0.5319909117798324}
SCORES = {  # probability, ROUGE-L recall, truth ratio
    ("full", "retain"): (0.9260884160508499, 0.9292525097192792, 0.482683008320846),
    ("full", "real_authors"): (0.3773603259680648, 0.4156666666666667, 0.4560090213398624),
    ("full", "world_facts"): (0.40899845221380016, 0.7773504273504274, 0.4923369138766094),
    ("full", "forget"): (0.9282394842423188, 0.9248612622630048, 0.48335558566802284),
    ("retain90", "retain"): (0.9231140312552543, 0.9200431185901895, 0.4847391599677),
    ("retain90", "real_authors"): (0.3841872783056456, 0.47533333333333333, 0.46383610879663545),
    ("retain90", "world_facts"): (0.4080884361892155, 0.7556980056980056, 0.4882634687986231),
    ("retain90", "forget"): (0.1349069615867286, 0.4278674282179278, 0.6288417132144549),
}


Found = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> dict[str, Found]:
    """The aggregates of both logs, each with the forget quality relative to the retain model."""
    logs = {name: read_eval_log(path) for name, path in LOGS.items()}
    return {name: evaluate_log(log, retain_log=logs["retain90"]) for name, log in logs.items()}


@pytest.mark.parametrize("name", LOGS)
def test_the_aggregates_are_the_published_ones(found: dict[str, Found], name: str) -> None:
    assert found[name]["model_utility"] == pytest.approx(UTILITY[name], rel=0, abs=1e-9)
    for part in PARTS:
        expected = dict(zip(("probability", "rouge_l_recall", "truth_ratio"), SCORES[name, part], strict=True))
        assert {score: found[name][part][score] for score in expected} == pytest.approx(expected, rel=0, abs=1e-9)


def test_forget_quality_is_the_published_one_and_1_for_the_retain_model_itself(found: dict[str, Found]) -> None:
    assert found["full"]["forget_quality"] == pytest.approx(2.1942743021891237e-16, rel=1e-9)
    assert found["full"]["forget_quality_statistic"] == pytest.approx(104 / 300, rel=0, abs=1e-12)
    assert found["retain90"]["forget_quality"] == 1.0


@pytest.mark.parametrize("part", PARTS)
def test_generated_answers_loop_and_the_references_do_not(found: dict[str, Found], part: str) -> None:
    """The authors let their models write on after the answer; the references are what fluent text scores."""
    items = json.loads(LOGS["full"].read_text())[PARTS[part]]
    references = [reference for _, _, reference in items["generated_text"].values()]
    scores = found["full"][part]
    assert longest_loop(references).max() == 0.0 < scores["longest_loop"] < 0.1
    assert repetition(references).mean() < 0.01 < 0.2 < scores["repetition"]


@pytest.mark.parametrize("part", PARTS)
def test_rouge_of_the_logged_texts_is_the_logged_rouge(part: str) -> None:
    items = json.loads(LOGS["retain90"].read_text())[PARTS[part]]
    texts = list(items["generated_text"].values())  # question, generated answer, reference
    recomputed = rouge_l_recall([reference for _, _, reference in texts], [generated for _, generated, _ in texts])
    assert recomputed.tolist() == [items["rougeL_recall"][index] for index in items["generated_text"]]
