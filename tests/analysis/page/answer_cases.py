"""Sweeps by the losses and scores of their trials, each with the answer that is right and what it must say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.frontier.judgement import Outcome

Scores = Mapping[str, float | None]
BASELINE = {"forget_loss_capped": 0.04, "retain_loss": 0.05, "verbmem": 0.95, "utility": 0.8, "truth_ratio": 0.5}


def scores(verbmem: float | None, utility: float | None, truth_ratio: float | None = 0.5) -> dict[str, float | None]:
    return {"verbmem": verbmem, "utility": utility, "truth_ratio": truth_ratio}


@dataclass(frozen=True)
class Case:
    """Trials by their losses and scores, what the answer is, and what it must and must not say."""

    name: str
    trials: Sequence[tuple[float, float, Scores]]
    outcome: Outcome
    trial_id: str
    said: Sequence[str]
    unsaid: Sequence[str] = ()
    constraints: Sequence[str] = ()
    baseline: Mapping[str, float] = field(default_factory=lambda: BASELINE)


TAKE, KNOWN, GONE = "Take trial", scores(0.883, 0.79), scores(0.0, 0.05)
CASES = (
    Case(
        "nothing forgotten",
        [(0.9, 0.10, KNOWN), (1.0, 0.12, scores(0.883, 0.78)), (1.1, 0.14, scores(0.9, 0.78))],
        Outcome.NOTHING_FORGOTTEN,
        "1",
        [
            "Nothing was forgotten: verbmem is 0.883 or above in all 3 trials, wanted below 0.1.",
            "more epochs (--epochs, now 3: 30 steps)",
            "a higher learning rate (--lr, up to 1e-4 so far)",
            "smaller batches (--batch-size, now 8)",
            "Closest is trial",
        ],
        [TAKE, "--auto-lr"],
    ),
    Case(
        "half forgotten",
        [(3.0, 0.2, scores(0.4, 0.78))],
        Outcome.TOO_LITTLE,
        "0",
        ["Too little was forgotten: verbmem is 0.4 in the only trial"],
        [TAKE],
    ),
    Case(
        "everything lost",
        [(8.0, 6.0, GONE), (8.0, 7.0, scores(0.0, 0.01))],
        Outcome.LOST,
        "0",
        ["Everything was lost: utility is 0.05 or below in all 2 trials", "a lower learning rate", "--auto-lr on"],
        [TAKE, "more epochs"],
    ),
    Case(
        "too much lost",
        [(8.0, 2.0, scores(0.0, 0.5))],
        Outcome.TOO_MUCH,
        "0",
        ["Too much was lost: utility is 0.5 in the only trial, wanted at least 70% of No-unlearn."],
        [TAKE],
    ),
    Case(
        "either too little or too much",
        [(1.0, 0.1, KNOWN), (8.0, 6.0, GONE)],
        Outcome.NO_TRADE_OFF,
        "1",
        ["No good trade-off: none of 2 trials", "search between them"],
        [TAKE],
    ),
    Case(
        "what forgets more loses all before it has forgotten",
        [(1.0, 0.1, KNOWN), (4.0, 6.0, scores(0.5, 0.0))],
        Outcome.NO_TRADE_OFF,
        "0",
        ["No good trade-off"],
        [TAKE],
    ),
    Case(
        "a good one that is not on the loss frontier",
        [(7.0, 0.5, scores(0.2, 0.3)), (6.0, 0.6, scores(0.0, 0.783))],
        Outcome.GOOD,
        "1",
        ["Take trial 1", "It meets the paper's thresholds: verbmem 0 (below 0.1)", "trial 1 is not among them"],
    ),
    Case(
        "without paraphrases",
        [(7.0, 0.5, scores(0.2, 0.3, None)), (6.0, 0.6, scores(0.0, 0.783, None))],
        Outcome.GOOD,
        "1",
        ["Take trial 1", "Not measured, and so not judged: truth ratio."],
    ),
    Case(
        "truth ratio without a baseline",
        [(6.0, 0.6, scores(0.0, 0.783, 0.5))],
        Outcome.GOOD,
        "0",
        ["Not judged, as No-unlearn's is not known: truth ratio."],
        baseline={name: value for name, value in BASELINE.items() if name != "truth_ratio"},
    ),
    Case(
        "nothing measured",
        [(6.0, 0.6, scores(None, None, None))],
        Outcome.NOT_JUDGED,
        "0",
        ["Take trial 0", "Not measured, and so not judged: verbmem, utility, truth ratio", "by the objectives alone"],
    ),
    Case(
        "nothing measured, and the loss never rose",
        [(0.03, 0.6, scores(None, None, None))],
        Outcome.NOTHING_FORGOTTEN,
        "0",
        ["Nothing was forgotten: forget loss capped is 0.03 in the only trial, wanted above 0.12."],
        [TAKE],
    ),
    Case(
        "nothing measured, and the model is destroyed",
        [(7.9, 7.9, scores(None, None, None)), (8.0, 7.95, scores(None, None, None))],
        Outcome.LOST,
        "0",
        ["Everything was lost: retain loss is 7.9 or above in all 2 trials, wanted below 6.", "a lower learning rate"],
        [TAKE],
    ),
    Case(
        "nothing measured, and one model is destroyed that is nearer to the ideal",
        [(7.9, 6.1, scores(None, None, None)), (0.2, 0.1, scores(None, None, None))],
        Outcome.NOT_JUDGED,
        "1",
        ["Take trial 1", "by the objectives alone"],
    ),
    Case(
        "only verbmem measured, and the model is destroyed",
        [(7.5, 8.0, scores(0.0, None, None))],
        Outcome.LOST,
        "0",
        [
            "retain loss is 8 in the only trial, wanted below 6",
            "What it keeps is told by the retain loss: 8 (wanted below 6).",
        ],
        [TAKE],
    ),
    Case(
        "a destroyed model does not come before one that misses utility by little",
        [(6.0, 0.4, scores(0.05, 0.55)), (7.5, 8.0, scores(0.0, None, None))],
        Outcome.TOO_MUCH,
        "0",
        ["Closest is trial 0"],
        [TAKE],
    ),
    Case(
        "only verbmem measured, and the retain loss stayed low",
        [(6.0, 0.6, scores(0.05, None, None))],
        Outcome.GOOD,
        "0",
        ["Take trial 0", "What it keeps is told by the retain loss: 0.6 (at most 0.845)."],
    ),
    Case(
        "only utility measured, and the forget loss never rose",
        [(0.04, 0.05, scores(None, 0.8, 0.5))],
        Outcome.NOTHING_FORGOTTEN,
        "0",
        [
            "forget loss capped is 0.04 in the only trial, wanted above 0.12",
            "What it forgets is told by the forget loss",
        ],
        [TAKE],
    ),
    Case(
        "only utility measured, and the forget loss before is not known",
        [(6.0, 0.05, scores(None, 0.8, 0.5))],
        Outcome.ONE_SIDED,
        "0",
        ["One side is not known: nothing is known of what is forgotten, so no trial is shown to be a good trade-off."],
        [TAKE],
        baseline={"utility": 0.8, "truth_ratio": 0.5},
    ),
    Case(
        "No-unlearn had forgotten already, and nothing changed",
        [(0.04, 0.05, scores(0.05, 0.8))],
        Outcome.NOTHING_FORGOTTEN,
        "0",
        [
            "Nothing was forgotten: forget loss capped is 0.04 in the only trial, wanted above 0.12.",
            "Verbmem does not show what it forgets: No-unlearn's 0.05 meets that, too.",
        ],
        [TAKE],
        baseline=BASELINE | {"verbmem": 0.05},
    ),
    Case(
        "No-unlearn had forgotten already, and more was forgotten",
        [(6.0, 0.05, scores(0.0, 0.8))],
        Outcome.GOOD,
        "0",
        ["Take trial 0", "What it forgets is told by the forget loss capped: 6 (at least 0.836)."],
        baseline=BASELINE | {"verbmem": 0.05},
    ),
    Case(
        "of no utility no share can be kept, and a truth ratio alone does not tell of what is",
        [(7.9, 7.9, scores(0.0, 0.0, 0.5))],
        Outcome.LOST,
        "0",
        ["Not judged, as No-unlearn's is 0: utility."],
        [TAKE, "utility 0 (at least 70% of No-unlearn)"],
        baseline=BASELINE | {"utility": 0.0},
    ),
    Case(
        "a threshold that is neither of forgetting nor of keeping",
        [(6.0, 0.2, scores(0.02, 0.79) | {"train_seconds": 9.0}), (6.1, 0.2, scores(0.02, 0.79))],
        Outcome.MISSED,
        "1",
        [
            "A threshold was missed: where enough is forgotten and kept train seconds is at least 6, wanted at most 5.",
            "To meet train seconds at most 5",
        ],
        [TAKE, "loses too much", "for both sets"],
        constraints=["train_seconds<=5"],
    ),
    Case(
        "a stated threshold on the retain set leaves the paper's on the forget set",
        [(6.0, 0.6, scores(0.05, 0.5)), (1.0, 0.1, KNOWN)],
        Outcome.GOOD,
        "0",
        [
            "Take trial 0",
            "It meets the thresholds stated: utility 0.5 (at least 0.4).",
            "It meets the paper's thresholds beside those stated: verbmem 0.05 (below 0.1).",
            "Not asked, as others are stated on that set, and missed: utility 0.5 (at least 70% of No-unlearn).",
        ],
        constraints=["utility>=0.4"],
    ),
    Case(
        "stated thresholds that are stricter",
        [(6.0, 0.6, scores(0.05, 0.6))],
        Outcome.TOO_MUCH,
        "0",
        ["utility is 0.6 in the only trial, wanted at least 95% of No-unlearn"],
        [TAKE, "the paper's"],
        constraints=["utility>=95%", "verbmem<=0.3"],
    ),
    Case(
        "stated on a loss",
        [(3.0, 0.2, scores(0.5, 0.8)), (6.0, 0.4, scores(0.5, 0.8))],
        Outcome.GOOD,
        "1",
        ["Take trial 1", "forget loss 6 (at least 5)"],
        constraints=["forget_loss>=5"],
    ),
    Case(
        "verbmem low, utility unknown, and a retain loss that shows neither",
        [(8.0, 5.9, scores(0.0, None, None))],
        Outcome.ONE_SIDED,
        "0",
        ["what is kept is not shown by the retain loss 5.9 (wanted at most 0.845)", "measure what is kept (--metrics)"],
        [TAKE],
    ),
    Case(
        "utility kept, verbmem unknown, and a forget loss that has hardly risen",
        [(0.13, 0.06, scores(None, 0.79))],
        Outcome.ONE_SIDED,
        "0",
        ["What it forgets is not shown by the forget loss capped: 0.13 (at least 0.836)."],
        [TAKE],
    ),
    Case(
        "a stated threshold that was never measured does not set the paper's aside",
        [(0.3, 0.06, scores(0.85, 0.79))],
        Outcome.NOTHING_FORGOTTEN,
        "0",
        ["verbmem is 0.85 in the only trial, wanted below 0.1", "Not measured, and so not judged: knowmem."],
        [TAKE],
        constraints=["knowmem<=0.2"],
    ),
    Case(
        "all is well but a stated threshold was never measured",
        [(6.0, 0.06, scores(0.0, 0.79))],
        Outcome.NOT_ASKED,
        "0",
        [
            "A threshold stated is not known: knowmem<=0.2, so no trial is shown to be what was asked for.",
            "(--metrics)",
        ],
        [TAKE],
        constraints=["knowmem<=0.2"],
    ),
    Case(
        "a stated threshold that is met where the paper's on the same set is missed",
        [(6.0, 0.06, scores(0.85, 0.79))],
        Outcome.GOOD,
        "0",
        ["Not asked, as others are stated on that set, and missed: verbmem 0.85 (below 0.1)."],
        constraints=["forget_loss>=2"],
    ),
    Case(
        "a stated share of what was not measured before unlearning",
        [(6.0, 0.06, scores(0.0, 0.79))],
        Outcome.NOT_ASKED,
        "0",
        ["utility>=90%, so no trial", "state a number and no share (--constraint)"],
        constraints=["utility>=90%"],
        baseline={name: value for name, value in BASELINE.items() if name != "utility"},
    ),
    Case(
        "neither side in any trial",
        [(2.0, 5.0, scores(0.5, 0.1)), (2.1, 5.1, scores(0.6, 0.1))],
        Outcome.NO_TRADE_OFF,
        "0",
        ["Nothing here does both"],
        [TAKE, "what keeps enough forgets too little"],
    ),
    Case(
        "the model before unlearning keeps nothing",
        [(8.0, 7.9, scores(0.0, 0.0, 0.0))],
        Outcome.ONE_SIDED,
        "0",
        ["the model before unlearning keeps nothing itself", "a target that knows the retain set (--target-epochs)"],
        [TAKE, "measure what is kept"],
        baseline=BASELINE | {"retain_loss": 7.9, "utility": 0.0, "truth_ratio": 0.0},
    ),
    Case(
        "losses of equal scores beyond the bound",
        [(6.0, 1e6, scores(0.0, 0.79)), (6.0, 9e5, scores(0.0, 0.79))],
        Outcome.GOOD,
        "1",
        ["Take trial 1"],
        ["is not among them"],
    ),
)
