"""Train half of the forgotten entities again. Do the facts of the other half, which is not trained, come back?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.attacks.attack import FACTS, Attack, Effort, own_metric
from trainables.attacks.training import curve, curve_columns, curve_metrics
from trainables.metrics.metric import QUESTIONS, Need

if TYPE_CHECKING:
    from trainables.data.examples import Example, UnlearningData
    from trainables.scoring.language import ModelScores

_SAME = "relearn_same"


def first_half(data: UnlearningData) -> tuple[Example, ...]:
    """Return the first half of the forget set. The questions about an entity, such as an author, stay together."""
    from trainables.data import DATASETS

    data_set = DATASETS.get(data.name.partition("/")[0])
    size = data_set.unit if data_set is not None and data_set.unit else 1
    half = len(data.forget) // 2
    return data.forget[: half // size * size or half]


def _run(scores: ModelScores) -> dict[str, float]:
    evaluator = scores.evaluator
    trained = first_half(evaluator.data)
    points = curve(scores, trained)
    same = {item.question for item in trained}
    other = {item.question for item in evaluator.data.forget} - same
    values: dict[str, float] = {}
    for ending, judged in (("relearn", other), (_SAME, same)):
        items = [index for index, question in enumerate(evaluator.questions["forget"].questions) if question in judged]
        if items:
            values |= curve_columns(points, ending, items)
    return {name: value for name, value in values.items() if name in _NAMES}


def _evaluates_other_half(data: UnlearningData) -> bool:
    """Return whether an evaluated question is in the half of the forget set that is not trained again."""
    same = {item.question for item in first_half(data)}
    return bool(({item.question for item in data.forget} - same) & {item.question for item in data.forget_eval})


_WORDS = "training on half of the forgotten entities"
_OWN = (
    *curve_metrics("relearn", f"{_WORDS}, on the other half"),
    own_metric(
        name="fact_recall_after_relearn_same",
        label="facts told of the relearned half of the forget set",
        unit="share of key facts",
        formula="the highest forget_fact_recall along the curve, on the half that is trained again",
        direction="min",
        of="forget",
        needs=(QUESTIONS,),
    ),
    *curve_metrics(_SAME, f"{_WORDS}, on this half"),
)
_NAMES = {"fact_recall_after_relearn", "verbmem_after_relearn", *(metric.name for metric in _OWN)}

ATTACK = Attack(
    name="relearn",
    formula="train the model on the first half of the forget set (whole entities, such as authors) for 4 epochs with "
    "AdamW, batches of 8 and a constant rate (--relearn-lr), and judge it after epochs 1, 2 and 4: on the other half "
    "(..._after_relearn, the highest value of the curve; points ..._1, ..._2, ..._4) and on the trained half "
    "(..._after_relearn_same). Compare the values with those of a model "
    "that never saw the forget set, because that model learns the trained half, too. All models train an adapter of "
    "rank 16 if the trials train an adapter",
    citation="Lynch et al., 2024 (arXiv:2402.16835); relearning judged on held-out facts: Deeb and Roger, Do "
    "Unlearning Methods Remove Information from Language Model Weights?, 2024 (arXiv:2410.08827)",
    cost="training half of the forget set for 4 epochs, and 3 times the generation of the forget answers",
    effort=Effort(forget_losses=9.0, forget_answers=6.0),
    endings={"relearn": "after training on the other half of it"},
    attacked=FACTS,
    own=_OWN,
    needs=(
        QUESTIONS,
        Need(
            "at least two questions in the forget set, of which the second half is evaluated with the same words",
            lambda data, retain_model: _evaluates_other_half(data),
        ),
    ),
    options="--relearn-lr",
    run=_run,
)
