"""The target: the fine-tuned "No-unlearn" model all trials start from, and what is known of it.

Beside the model the target has its data, its own scores (the baseline every trial is compared with), and its log
likelihoods of the forget set (what NPO and its kin compare with), so that they need no second model in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainables.data import ProblemData
from trainables.scoring.model_scores import RetainValues
from trainables.template import QUESTION_ANSWER


@dataclass(frozen=True, slots=True)
class Target:
    """What all trials of a sweep share.

    Attributes:
        key: content hash of model, data and recipe; part of every trial's spec hash.
        path: a folder ``from_pretrained`` loads, the same on every node.
        data: the unlearning problem.
        vocabulary_size: ``|V|``, the model's number of output classes: tokens, or labels of images.
        baseline: the target's own metrics.
        reference_nll: the target's summed NLL of each forget example, in the order of ``data.forget``.
        template: how the model is asked, see :mod:`trainables.template`.
        retain: of the model trained without the forget set, where a chosen metric needs one.
        left_out: of the sets of metrics asked for, those that only a retain model would give.
    """

    key: str
    path: str
    data: ProblemData
    vocabulary_size: int
    baseline: dict[str, float]
    reference_nll: tuple[float, ...]
    template: str = QUESTION_ANSWER
    retain: RetainValues | None = None
    left_out: tuple[str, ...] = ()
