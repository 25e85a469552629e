"""Small sweeps, given by the losses and scores of their trials, each with the answer that is right for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from analysis.frontier.judgement import Outcome

Scores = Mapping[str, float | None]
BASELINE = {"forget_loss_capped": 0.04, "retain_loss": 0.05, "verbmem": 0.95, "utility": 0.8, "truth_ratio": 0.5}
VERBMEM, UTILITY, RATIO = "verbmem<0.1", "utility>=70%", "truth_ratio>=70%"
RISEN, LOW = "forget_loss_capped>0.12", "retain_loss<6"


ADVICE = dict.fromkeys(
    (Outcome.NOTHING_FORGOTTEN, Outcome.TOO_LITTLE), ("--epochs", "--lr", "--batch-size")
) | dict.fromkeys((Outcome.LOST, Outcome.TOO_MUCH), ("--lr", "--epochs", "--auto-lr"))
"""The options that the advice names after these outcomes."""


def scores(verbmem: float | None, utility: float | None, truth_ratio: float | None = 0.5) -> dict[str, float | None]:
    return {"verbmem": verbmem, "utility": utility, "truth_ratio": truth_ratio}


def without(*names: str) -> dict[str, float]:
    """The baseline without some of its metrics."""
    return {name: value for name, value in BASELINE.items() if name not in names}


@dataclass(frozen=True)
class Case:
    """The trials of a sweep by their losses and scores, and the facts of the answer.

    Attributes:
        trial_id: the trial to take or, where none is good, the closest one.
        decisive: the threshold that the outcome is about, and the best value of its column.
        missed, unjudged: the thresholds that this trial misses, and those that could not be judged; ``missed`` is the
            decisive one if it is not stated.
        side: the side of which nothing is known.
        options: the options that the advice names, all of them; those of ``ADVICE`` if none is stated.
        named: what the sentences name besides: columns, values and bounds.
        on_frontier: whether the trial is on the frontier of the losses.
    """

    name: str
    trials: Sequence[tuple[float, float, Scores]]
    outcome: Outcome
    trial_id: str = "0"
    decisive: tuple[str, float] | None = None
    missed: Sequence[str] | None = None
    unjudged: Sequence[str] = ()
    side: str = ""
    options: Sequence[str] = ()
    named: Sequence[str] = ()
    constraints: Sequence[str] = ()
    baseline: Mapping[str, float] = field(default_factory=lambda: BASELINE)
    on_frontier: bool = True

    @property
    def misses(self) -> set[str]:
        """The thresholds that the trial misses."""
        return set(self.missed if self.missed is not None else self.decisive[:1] if self.decisive else ())

    @property
    def advised(self) -> set[str]:
        return set(self.options or ADVICE.get(self.outcome, ()))


KNOWN, GONE, NONE = scores(0.883, 0.79), scores(0.0, 0.05), scores(None, None, None)
CASES = (
    Case(
        "nothing forgotten",
        [(0.9, 0.10, KNOWN), (1.0, 0.12, scores(0.883, 0.78)), (1.1, 0.14, scores(0.9, 0.78))],
        Outcome.NOTHING_FORGOTTEN,
        "1",
        decisive=(VERBMEM, 0.883),
        named=["3 trials", "30 steps", "higher", "1e-4", "now 8"],
    ),
    Case(
        "everything lost",
        [(8.0, 6.0, GONE), (8.0, 7.0, scores(0.0, 0.01))],
        Outcome.LOST,
        decisive=(UTILITY, 0.05),
        named=["2 trials", "lower", "fewer"],
    ),
    Case("exactly a strict bound", [(6.0, 0.2, scores(0.1, 0.78))], Outcome.TOO_LITTLE, decisive=(VERBMEM, 0.1)),
    Case("too much lost", [(8.0, 2.0, scores(0.0, 0.5))], Outcome.TOO_MUCH, decisive=(UTILITY, 0.5)),
    Case(
        "either too little or too much",
        [(1.0, 0.1, KNOWN), (8.0, 6.0, GONE)],
        Outcome.NO_TRADE_OFF,
        "1",
        missed=[UTILITY],
        options=["--trials", "--epochs", "--lr", "--method"],
        named=["2 trials"],
    ),
    Case(
        "what forgets more loses all before it has forgotten",
        [(1.0, 0.1, KNOWN), (4.0, 6.0, scores(0.5, 0.0))],
        Outcome.NO_TRADE_OFF,
        missed=[VERBMEM],
        options=["--epochs", "--lr", "--method"],
    ),
    Case(
        "a good one that is not on the loss frontier",
        [(7.0, 0.5, scores(0.2, 0.3)), (6.0, 0.6, scores(0.0, 0.783))],
        Outcome.GOOD,
        "1",
        named=["verbmem 0 ", "0.1", "0.783", "70%"],
        on_frontier=False,
    ),
    Case(
        "truth ratio without a baseline",
        [(6.0, 0.6, scores(0.0, 0.783, 0.5))],
        Outcome.GOOD,
        unjudged=[RATIO],
        baseline=without("truth_ratio"),
    ),
    Case(
        "an epoch known by its losses alone does not hide that the judged one fails",
        [(8.0, 6.0, GONE), (6.0, 0.4, NONE)],
        Outcome.LOST,
        decisive=(UTILITY, 0.05),
        named=["1 of 2", "'evaluate'"],
    ),
    Case(
        # Verbmem 0.18 is twice the bound and most of the way from No-unlearn; utility 0.23 is a third of the bound.
        "a kept model is closer than a ruined one",
        [(6.0, 3.0, scores(0.09, 0.23, None)), (4.0, 0.3, scores(0.18, 0.83, None))],
        Outcome.NO_TRADE_OFF,
        "1",
        missed=[VERBMEM],
        unjudged=[RATIO],
        options=["--trials", "--epochs", "--lr", "--method"],
        baseline=BASELINE | {"verbmem": 0.99, "utility": 0.96},
    ),
    Case("nothing measured", [(6.0, 0.6, NONE)], Outcome.NOT_JUDGED, unjudged=[VERBMEM, UTILITY, RATIO]),
    Case(
        "nothing measured, and the loss never rose",
        [(0.03, 0.6, NONE)],
        Outcome.NOTHING_FORGOTTEN,
        decisive=(RISEN, 0.03),
        unjudged=[VERBMEM, UTILITY, RATIO],
    ),
    Case(
        "nothing measured, and the model is destroyed",
        [(7.9, 7.9, NONE), (8.0, 7.95, NONE)],
        Outcome.LOST,
        decisive=(LOW, 7.9),
        unjudged=[VERBMEM, UTILITY, RATIO],
    ),
    Case(
        "a destroyed model does not come before one that misses utility by little",
        [(6.0, 0.4, scores(0.05, 0.55)), (7.5, 8.0, scores(0.0, None, None))],
        Outcome.TOO_MUCH,
        missed=[UTILITY],
    ),
    Case(
        "only verbmem measured, and the retain loss stayed low",
        [(6.0, 0.6, scores(0.05, None, None))],
        Outcome.GOOD,
        unjudged=[UTILITY, RATIO],
        named=["retain loss", "0.6", "0.845"],
    ),
    Case(
        "only utility measured, and the forget loss before is not known",
        [(6.0, 0.05, scores(None, 0.8, 0.5))],
        Outcome.ONE_SIDED,
        unjudged=[VERBMEM],
        side="forgetting",
        options=["--metrics"],
        baseline={"utility": 0.8, "truth_ratio": 0.5},
    ),
    Case(
        "No-unlearn had forgotten already, and nothing changed",
        [(0.04, 0.05, scores(0.05, 0.8))],
        Outcome.NOTHING_FORGOTTEN,
        decisive=(RISEN, 0.04),
        named=["the target's 0.05"],
        baseline=BASELINE | {"verbmem": 0.05},
    ),
    Case(
        "No-unlearn had forgotten already, and more was forgotten",
        [(6.0, 0.05, scores(0.0, 0.8))],
        Outcome.GOOD,
        named=["forget loss capped", "0.836"],
        baseline=BASELINE | {"verbmem": 0.05},
    ),
    Case(
        "of no utility no share can be kept, and a truth ratio alone does not tell of what is",
        [(7.9, 7.9, scores(0.0, 0.0, 0.5))],
        Outcome.LOST,
        decisive=(LOW, 7.9),
        unjudged=[UTILITY],
        baseline=BASELINE | {"utility": 0.0},
    ),
    Case(
        "a threshold that is neither of forgetting nor of keeping",
        [(6.0, 0.2, scores(0.02, 0.79) | {"train_seconds": 9.0}), (6.1, 0.2, scores(0.02, 0.79))],
        Outcome.MISSED,
        "1",
        decisive=("train_seconds<=5", 6.0),
        options=["--trials", "--method", "--constraint"],
        constraints=["train_seconds<=5"],
    ),
    Case(
        "a stated threshold on the retain set leaves the paper's on the forget set",
        [(6.0, 0.6, scores(0.05, 0.5)), (1.0, 0.1, KNOWN)],
        Outcome.GOOD,
        named=["at least 0.4", "below 0.1", "70%"],
        constraints=["utility>=0.4"],
    ),
    Case(
        "verbmem low, utility unknown, and a retain loss that shows neither",
        [(8.0, 5.9, scores(0.0, None, None))],
        Outcome.ONE_SIDED,
        unjudged=[UTILITY, RATIO],
        side="keeping",
        options=["--metrics"],
        named=["retain loss", "5.9", "0.845"],
    ),
    Case(
        "utility kept, verbmem unknown, and a forget loss that has hardly risen",
        [(0.13, 0.06, scores(None, 0.79))],
        Outcome.ONE_SIDED,
        unjudged=[VERBMEM],
        side="forgetting",
        options=["--metrics"],
        named=["forget loss capped", "0.13", "0.836"],
    ),
    Case(
        "a stated threshold that was never measured does not set the paper's aside",
        [(0.3, 0.06, scores(0.85, 0.79))],
        Outcome.NOTHING_FORGOTTEN,
        decisive=(VERBMEM, 0.85),
        unjudged=["knowmem<=0.2"],
        constraints=["knowmem<=0.2"],
    ),
    Case(
        "all is well but a stated threshold was never measured",
        [(6.0, 0.06, scores(0.0, 0.79))],
        Outcome.NOT_ASKED,
        unjudged=["knowmem<=0.2"],
        options=["--metrics"],
        named=["knowmem<=0.2"],
        constraints=["knowmem<=0.2"],
    ),
    Case(
        "a stated threshold that is met where the paper's on the same set is missed",
        [(6.0, 0.06, scores(0.85, 0.79))],
        Outcome.GOOD,
        named=["verbmem 0.85", "0.1"],
        constraints=["forget_loss>=2"],
    ),
    Case(
        "a stated share of what was not measured before unlearning",
        [(6.0, 0.06, scores(0.0, 0.79))],
        Outcome.NOT_ASKED,
        unjudged=["utility>=90%", UTILITY],
        options=["--constraint"],
        named=["utility>=90%"],
        constraints=["utility>=90%"],
        baseline=without("utility"),
    ),
    Case(
        "the model before unlearning keeps nothing",
        [(8.0, 7.9, scores(0.0, 0.0, 0.0))],
        Outcome.ONE_SIDED,
        unjudged=[UTILITY, RATIO],
        side="keeping",
        options=["--target-epochs"],
        baseline=BASELINE | {"retain_loss": 7.9, "utility": 0.0, "truth_ratio": 0.0},
    ),
    Case(
        "losses of equal scores beyond the bound",
        [(6.0, 1e6, scores(0.0, 0.79)), (6.0, 9e5, scores(0.0, 0.79))],
        Outcome.GOOD,
        "1",
    ),
)
