"""Train an unlearned model further, as attacks do."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainables.attacks.attack import column, own_metric
from trainables.attacks.model import editable
from trainables.metrics.metric import QUESTIONS, Metric

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainables.data.examples import Example
    from trainables.metrics.metric import Array
    from trainables.scoring.language import ModelScores

EPOCHS = (1, 2, 4)
"""The epochs of training after which the model is judged: the points of a curve."""
BATCH_SIZE = 8
ADAPTER_RANK = 16
"""The rank of the adapter that is trained if the trials train an adapter."""
Recalls = tuple["Array", "Array"]
"""The share of key facts and the ROUGE-L recall of each greedy answer to the forget questions, ``(n,)`` each."""


def curve_metrics(ending: str, words: str) -> tuple[Metric, ...]:
    """Return the metrics with the points of a curve of fact recall: one for each of :data:`EPOCHS`."""
    return tuple(
        own_metric(
            name=f"{column('forget_fact_recall', ending)}_{epoch}",
            label=f"facts told of the forget set, after {epoch} {'epoch' if epoch == 1 else 'epochs'} of {words}",
            unit="share of key facts",
            formula=f"forget_fact_recall after epoch {epoch} of {words}",
            direction="min",
            of="forget",
            needs=(QUESTIONS,),
        )
        for epoch in EPOCHS
    )


def curve(scores: ModelScores, examples: Sequence[Example]) -> dict[int, Recalls]:
    """Train a copy of the model on examples, and return its recalls after each of :data:`EPOCHS`.

    The recalls are NaN if the training has diverged: a model without finite losses tells nothing, but it is not robust.
    """
    import numpy as np

    evaluator = scores.evaluator
    recalls = {}
    with _trainable(scores) as model:
        for epoch in _epochs(scores, model, examples):
            if epoch in EPOCHS:
                after = evaluator.scores(model)
                told = (after.fact_recalls("forget"), after.recalls("forget"))
                is_finite = bool(np.isfinite(after.losses("forget")).all())
                recalls[epoch] = told if is_finite else (told[0] * np.nan, told[1] * np.nan)
    return recalls


def curve_columns(curve: dict[int, Recalls], ending: str, items: Sequence[int]) -> dict[str, float]:
    """Return the columns of a curve, judged on some items: each point, and the highest value of all points.

    Points of a model that has diverged are NaN, and have no part in the highest value.
    """
    from trainables.metrics.fact_recall import mean_recall

    facts = {epoch: float(mean_recall(told[list(items)])) for epoch, (told, _) in curve.items()}
    words = [float(recalls[list(items)].mean()) for _, recalls in curve.values()]
    name = column("forget_fact_recall", ending)
    points = {f"{name}_{epoch}": value for epoch, value in facts.items()}
    return {name: _highest(facts.values()), column("verbmem", ending): _highest(words), **points}


def _highest(values: Iterable[float]) -> float:
    """Return the highest value that is not NaN; NaN if all are."""
    return max((value for value in values if not math.isnan(value)), default=math.nan)


@contextmanager
def _trainable(scores: ModelScores) -> Iterator[PreTrainedModel]:
    """Yield a model to train: all weights or, if the trials train an adapter, a new adapter.

    The models that are compared, such as one that never saw the forget set, are trained alike.
    """
    from trainables.models.adapters import add_adapter

    is_whole = not scores.evaluator.attack_settings["relearn_adapter"]
    with editable(scores.model) as model:
        model.requires_grad_(is_whole)
        if is_whole:
            yield model
            return
        adapted = add_adapter(model, rank=ADAPTER_RANK, seed=0)
        try:
            yield adapted
        finally:
            adapted.unload()


def _epochs(scores: ModelScores, model: PreTrainedModel, examples: Sequence[Example]) -> Iterator[int]:
    """Train with AdamW on the mean loss per token, and yield the number of each finished epoch."""
    import torch

    from trainables.text.losses import predict
    from trainables.text.tokens import collate, pad_id

    scorer = scores.evaluator.scorer
    sequences, pad = scorer.encode(examples), pad_id(scorer.tokenizer)
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    rate = float(scores.evaluator.attack_settings["relearn_lr"])
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
    rng = random.Random(0)
    torch.manual_seed(0)
    for epoch in range(1, max(EPOCHS) + 1):
        order = rng.sample(range(len(sequences)), len(sequences))
        model.train()
        for start in range(0, len(order), BATCH_SIZE):
            batch = collate(sequences, order[start : start + BATCH_SIZE], pad_id=pad, device=scorer.device)
            optimizer.zero_grad()
            with torch.enable_grad():
                predictions = predict(model, batch)
                (predictions.nll.sum() / predictions.supervised.sum()).backward()
            optimizer.step()
        yield epoch
