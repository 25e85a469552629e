"""The target: the fine-tuned model from which all trials start, with its data and its scores.

The target's metrics are the baseline for every trial. The target's log-likelihoods of the forget set are also stored,
so that NPO and similar objectives do not need a second model in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.data import TaskData
from trainables.scoring.measured import ItemLog
from trainables.scoring.model_scores import RetainValues
from trainables.template import QUESTION_ANSWER


@dataclass(frozen=True, slots=True)
class Target:
    """The target that all trials of a sweep share. The fields are everything that a worker needs to start a trial.

    Attributes:
        key: the content hash of model, data and recipe, which is a part of every trial's spec hash.
        path: the model's folder, which ``from_pretrained`` can load.
        data: the data to unlearn from.
        vocabulary_size: ``|V|``, the model's number of output classes: tokens, or labels of images.
        baseline: the target's own metrics.
        reference_nll: the target's summed NLL of each forget example, in the order of ``data.forget``.
        template: the model's prompt template (see :mod:`trainables.template`).
        retain: the values of the retain model, if a chosen metric needs them; otherwise None.
        left_out: the requested metrics that are not measured because no retain model is available.
        answers: the target's generated answers, by evaluation set, as in a per-item log; empty if none were generated.
    """

    key: str
    path: str
    data: TaskData
    vocabulary_size: int
    baseline: dict[str, float]
    reference_nll: tuple[float, ...]
    template: str = QUESTION_ANSWER
    retain: RetainValues | None = None
    left_out: tuple[str, ...] = ()
    answers: ItemLog = field(default_factory=dict)
