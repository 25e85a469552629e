"""The per-item values behind a model's metrics as a file, in the format of the TOFU authors' evaluation logs.

``evaluate --eval-log`` reads it back (where it has all four sets) and gives the same metrics. Columns are keyed by item
index; a column that no chosen metric needed is not there.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from trainables.scoring.eval_log import PARTS
from trainables.scoring.measured import ItemLog
from trainables.scoring.model_scores import ModelScores


def item_log(scores: ModelScores) -> ItemLog:
    """What has been computed so far, by part of the log; ``membership`` has the scores of each attack.

    ``prompted`` has what the model said to the data set's own prompts, by metric (MUSE, plain texts).
    """
    log: ItemLog = {}
    for part, key in PARTS.items():
        columns = _answer_columns(scores, part) | _choice_columns(scores, part)
        if columns:
            log[key] = columns
    if scores.known_prompted:
        log["prompted"] = {
            metric: {
                "generated_text": _column(list(map(list, zip(prompts, said, references, strict=True)))),
                "rougeL_recall": _column(recalls),
            }
            for metric, (prompts, said, recalls) in scores.known_prompted.items()
            for references in [scores.sets.prompted[metric].references]
        }
    if scores.known_attacks:
        log["membership"] = {
            name: {"forget": _column(inside), "holdout": _column(outside)}
            for name, (inside, outside) in scores.known_attacks.items()
        }
    return log


def write_item_log(path: Path, log: Mapping[str, object]) -> None:
    """Write the log, all at once; values that are not finite become null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        staging.write_text(json.dumps(_finite(log)) + "\n", encoding="utf-8")
        staging.replace(path)
    finally:
        staging.unlink(missing_ok=True)


def _answer_columns(scores: ModelScores, part: str) -> dict[str, object]:
    columns: dict[str, object] = {}
    if part in scores.known_answers:
        totals, counts = scores.known_answers[part]
        columns |= {"avg_gt_loss": _column(totals / counts), "gt_loss": _column(totals)}
        columns["num_token_gt"] = _column(counts.astype(int))
    if part in scores.known_texts:
        sets = scores.sets.questions(part)
        texts, recalls = scores.known_texts[part]
        rows = zip(sets.questions, texts, sets.references, strict=True)
        columns["generated_text"] = _column([[scores.scorer.asked(asked), said, right] for asked, said, right in rows])
        columns["rougeL_recall"] = _column(recalls)
    return columns


def _choice_columns(scores: ModelScores, part: str) -> dict[str, object]:
    if part not in scores.known_choices:
        return {}
    found, items = scores.known_choices[part], scores.sets.choices(part).items
    return {
        "avg_paraphrased_loss": _column(found.paraphrased, items),
        "paraphrased_loss": _column([row[0] for row in found.totals], items),
        "num_token_paraphrased": _column([int(row[0]) for row in found.counts], items),
        "average_perturb_loss": _column([row.tolist() for row in found.perturbed], items),
        "perturb_loss": _column([row[1:].tolist() for row in found.totals], items),
        "num_token_perturb": _column([row[1:].astype(int).tolist() for row in found.counts], items),
        "truth_ratio": _column(scores.truth_ratios(part), items),
    }


def _column(values: Sequence[object] | np.ndarray, items: Sequence[int] | None = None) -> dict[str, object]:
    plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
    places = range(len(plain)) if items is None else items
    return {str(place): value for place, value in zip(places, plain, strict=True)}


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
