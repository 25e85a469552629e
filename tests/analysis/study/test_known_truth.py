"""The words of verdicts on tables whose truth is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from analysis.study.lr_study import LrStudy, read_study
from analysis.study.verdict import BETTER, OPEN, TOO_FEW, UNDECIDED, WORSE
from analysis.study.verdict_words import words
from tests.analysis.conftest import MakeRow, MakeSweep, Row

Difference = Callable[[int], float]
PEAK = {1e-5: 0.1, 1e-4: 0.45, 1e-3: 0.3}
RISING = {1e-5: 0.1, 1e-4: 0.3, 1e-3: 0.45}
FALLING = {1e-5: 0.45, 1e-4: 0.3, 1e-3: 0.1}
LOST = {"status": "failed", "forget_loss_capped": None, "retain_loss": None}
DIVERGED = LOST | {"status": "diverged"}


def table(
    row: MakeRow,
    difference: float | Difference = 0.0,
    *,
    seeds: int = 30,
    rates: Mapping[float, float] = PEAK,
    sides: Sequence[bool] = (False, True),
    **fields: object,
) -> list[Row]:
    """Fixed rates of known volumes, and AutoLR above the best of them by a known difference; a seed moves all alike."""
    rows = []
    for seed in range(seeds):
        moved = 0.02 * np.sin(seed)
        if False in sides:
            rows += [row(max(0.0, volume + moved), lr, seed, utility=0.8, **fields) for lr, volume in rates.items()]
        if True in sides:
            own = difference(seed) if callable(difference) else difference
            known = {"utility": 0.3 if own < -0.3 else 0.8} | fields
            rows.append(row(max(rates.values()) + moved + own, 1e-4, seed, auto=True, **known))
    return rows


def with_fields(rows: list[Row], which: Callable[[Row], bool], fields: Row) -> list[Row]:
    """The rows with other values in some of them."""
    return [item | fields if which(item) else item for item in rows]


def is_auto(item: Row) -> bool:
    return item["auto_lr"] == "on"


def noise(sd: float, *, mean: float = 0.0) -> Difference:
    """Normal differences, the same for a seed in every table."""
    values = np.random.default_rng(5).normal(0, sd, 400)
    return lambda seed: mean + float(values[seed])


def rare(good: float, ruin: float, every: int) -> Difference:
    """``ruin`` on the last of every so many seeds."""
    return lambda seed: ruin if seed % every == every - 1 else good


@dataclass(frozen=True)
class Case:
    """Tables of so many sweeps, the outcomes against the best single rate, and what the words must and must not say."""

    name: str
    sweeps: Callable[[MakeRow], Sequence[list[Row]]]
    outcomes: Sequence[str]
    said: Sequence[str] = ()
    unsaid: Sequence[str] = ()


def one(*difference: float | Difference, **fields: object) -> Callable[[MakeRow], Sequence[list[Row]]]:
    return lambda row: [table(row, *difference, **fields)]  # type: ignore[arg-type]


def two(difference: float = 0.3, **fields: object) -> Callable[[MakeRow], Sequence[list[Row]]]:
    """A sweep, and another one that differs in some fields and in its truth."""
    return lambda row: [table(row, difference, forget_split="forget10"), table(row, -difference, **fields)]


def arms(count: int, difference: float) -> Callable[[MakeRow], Sequence[list[Row]]]:
    """One method with a known truth among others that are null."""
    names = [f"method{index}" for index in range(count)]
    return lambda row: [
        [item for index, name in enumerate(names) for item in table(row, 0.0 if index else difference, method=name)]
    ]


NOT_SHOWN, NO_PICKS = "is not shown to differ from", "no number of picks"
CLAIMS = ("is better than", "is worse than", NO_PICKS)
CASES = (
    # Effects.
    Case("null", one(), [UNDECIDED], [NOT_SHOWN, "no number of seeds tells a mean difference of 0"], CLAIMS),
    Case("null with noise", one(noise(0.05)), [UNDECIDED], [NOT_SHOWN, "fresh ones to tell"], CLAIMS),
    Case("better", one(0.3), [BETTER], ["is better than the best single lr (1e-4)", NO_PICKS], ["is worse"]),
    Case("worse", one(-0.3), [WORSE], ["is worse than the best single lr (1e-4)"], ["is better", NO_PICKS]),
    Case("better with noise", one(noise(0.05, mean=0.3)), [BETTER], ["ahead on 20 of 20"]),
    Case(
        "a little better", one(0.05), [UNDECIDED], ["by less than these seeds can tell", "takes 83 fresh ones"], CLAIMS
    ),
    Case("a little worse", one(-0.05), [UNDECIDED], ["takes 83 fresh ones"], CLAIMS),
    Case("a little better, many seeds", one(0.05, seeds=150), [BETTER], ["over 100 fresh seeds"], ["is worse"]),
    Case("a little worse, many seeds", one(-0.05, seeds=150), [WORSE], ["over 100 fresh seeds"], ["is better"]),
    Case("null, many seeds", one(seeds=150), [UNDECIDED], ["95% interval of the difference -0.0"], CLAIMS),
    Case("wide scatter", one(noise(0.15, mean=0.05)), [UNDECIDED], [NOT_SHOWN], CLAIMS),
    # Rare ruin: the mean is 0 or below whatever the six seeds show.
    Case("ruin not seen in six", one(0.02, seeds=8), [UNDECIDED], ["a rare ruin may not have shown yet"], CLAIMS),
    Case("ruin not seen in hundred", one(0.02, seeds=150), [UNDECIDED], ["on 0 of 100 (0% to 4%) fresh"], CLAIMS),
    Case("ruin once in twenty", one(rare(0.02, -0.38, 20)), [UNDECIDED], ["on 1 of 20 (0% to 25%) fresh"], CLAIMS),
    Case("ruin at mean zero", one(rare(0.02, -0.38, 20), seeds=180), [UNDECIDED], ["on 6 of 120"], CLAIMS),
    Case("ruin on every other seed", one(rare(0.0, -0.42, 2), seeds=60), [WORSE], ["on 20 of 40"], ["is better"]),
    Case(
        "ruin of the hand-tuned side",
        lambda row: [
            with_fields(table(row), lambda item: not is_auto(item) and item["seed"] == 29, {"utility": 0.3}),
        ],
        [UNDECIDED],
        ["the best single lr on 1 of 20 (0% to 25%) fresh", "AutoLR clip/fresh on 0 of 20 (0% to 17%) fresh"],
    ),
    Case(
        "divergence is ruin",
        lambda row: [with_fields(table(row, 0.02), lambda item: is_auto(item) and item["seed"] == 29, DIVERGED)],
        [UNDECIDED],
        ["AutoLR clip/fresh on 1 of 20", "ahead on 19 of 20"],
        CLAIMS,
    ),
    # The edge of the grid.
    Case(
        "best at the highest rate",
        one(0.3, rates=RISING),
        [OPEN],
        ["the best rate is at the edge of the grid (1e-5 to 0.001): extend it with --lr 0.01", "open, nothing can be"],
        CLAIMS,
    ),
    Case("best at the lowest rate", one(0.3, rates=FALLING), [OPEN], ["extend it with --lr 1e-06"], CLAIMS),
    Case(
        "worse than an edge",
        one(-0.3, rates=RISING),
        [WORSE],
        ["is worse than the best single lr (0.001)", "the best rate is at the edge of the grid (1e-5 to 0.001)"],
        ["is better", "nothing can be concluded"],
    ),
    Case("a little worse than an edge", one(-0.05, rates=RISING), [OPEN], ["at the edge of the grid"], CLAIMS),
    Case(
        "one rate", one(0.3, rates={1e-4: 0.4}), [OPEN], ["only one rate was tried (1e-4)", "--lr 3.2e-05 --lr 0.00032"]
    ),
    Case("two rates", one(0.3, rates={1e-4: 0.4, 1e-3: 0.3}), [OPEN], ["extend it with --lr 1e-05"], CLAIMS),
    Case("a plateau up to the edge", one(0.3, rates={1e-5: 0.1, 1e-4: 0.4, 1e-3: 0.4}), [BETTER], [], ["edge"]),
    Case(
        "nothing attained",
        lambda row: [with_fields(table(row), lambda item: not is_auto(item), DIVERGED)],
        [OPEN],
        ["no rate of the grid attains"],
    ),
    Case(
        "beyond the peak all diverges",
        lambda row: [
            with_fields(table(row, 0.3, rates=RISING | {1e-2: 0.9}), lambda item: item["lr"] == 1e-2, DIVERGED)
        ],
        [BETTER],
        [],
        ["edge"],
    ),
    Case(
        "an edge that only fresh seeds show",
        lambda row: [
            with_fields(table(row, 0.3), lambda item: item["lr"] == 1e-3 and int(str(item["seed"])) >= 10, row_of(0.6)),
        ],
        [OPEN],
        ["at the edge of the grid"],
        CLAIMS,
    ),
    Case(
        "an edge of one method",
        lambda row: [table(row, 0.3, rates=RISING), table(row, 0.3, method="ngdiff", c=None)],
        [OPEN, BETTER],
    ),
    Case(
        "an edge that a second sweep extends",
        lambda row: [table(row, 0.3, rates=RISING), table(row, rates={1e-2: 0.2}, sides=[False])],
        [BETTER],
        ["is better than the best single lr (0.001)"],
        ["edge"],
    ),
    # Different problems.
    Case("other epochs", two(epochs=9, forget_split="forget10"), [BETTER, WORSE], ["(epochs 3)", "differ in epochs:"]),
    Case("other batches", two(batch_size=2, forget_split="forget10"), [BETTER, WORSE], ["differ in batch size:"]),
    Case("other optimizer", two(optimizer="sgd", forget_split="forget10"), [BETTER, WORSE], ["(optimizer sgd)"]),
    Case("other target", two(target_key="99ff", forget_split="forget10"), [BETTER, WORSE], ["(target key 99ff)"]),
    Case("other split", two(forget_split="forget05"), [BETTER, WORSE], ["(forget split forget05)"]),
    Case(
        "other split and so another target",
        two(forget_split="forget05", target_key="99ff"),
        [BETTER, WORSE],
        ["differ in forget split:"],
        ["target key"],
    ),
    Case(
        "two differences",
        two(epochs=9, forget_split="forget05"),
        [BETTER, WORSE],
        ["epochs 9", "forget split forget05"],
    ),
    Case("in one table", lambda row: [table(row, 0.3) + table(row, -0.3, epochs=9)], [BETTER, WORSE], ["(epochs 9)"]),
    Case(
        "the sides on different problems",
        lambda row: [table(row, sides=[False]), table(row, 0.3, sides=[True], epochs=9)],
        [],
        ["differ in epochs: these are different problems"],
        CLAIMS,
    ),
    Case(
        "one problem in two folders",
        lambda row: [table(row, sides=[False]), table(row, 0.3, sides=[True])],
        [BETTER],
        [],
        ["different problems"],
    ),
    Case(
        "another c is no other problem",
        lambda row: [table(row, 0.3) + table(row, 0.3, c=0.9)],
        [BETTER],
        ["the per-c oracle takes that rate for every c"],
        ["different problems"],
    ),
    Case(
        "AutoLR's settings are no other problem",
        lambda row: [table(row, 0.35), table(row, 0.35, sides=[True], auto_lr_smoothing="paper")],
        [BETTER, BETTER],
        ["Holm over the 2 comparisons of this report"],
        ["different problems"],
    ),
    # Seeds.
    Case(
        "a lost seed",
        lambda row: [with_fields(table(row, 0.3), lambda item: item["seed"] == 29 and is_auto(item), LOST)],
        [BETTER],
        ["left out, as not every run of both sides ended there: seed 29", "over 19 fresh seeds"],
    ),
    Case(
        "all tuning seeds lost",
        lambda row: [with_fields(table(row, 0.3), lambda item: int(str(item["seed"])) < 10 and is_auto(item), LOST)],
        [TOO_FEW],
        ["the rates were chosen on the seeds they are reported on", "flatters hand-tuning"],
        CLAIMS,
    ),
    Case(
        "one seed",
        one(0.3, seeds=1),
        [TOO_FEW],
        ["flatters hand-tuning", "proves nothing"],
        (*CLAIMS, "interval of the difference"),
    ),
    Case("four fresh seeds", one(0.3, seeds=6), [TOO_FEW], ["needs 6 fresh ones at least (--seeds 8)"], CLAIMS),
    Case("few seeds at an edge", one(0.3, seeds=6, rates=RISING), [TOO_FEW], ["at the edge of the grid"], CLAIMS),
    Case("ties and gains", one(rare(0.0, 0.5, 2), seeds=60), [BETTER], ["ahead on 20 of 40, equal on 20"]),
    Case("no AutoLR", one(sides=[False]), []),
    # Many questions.
    Case("eight null arms", arms(8, 0.0), [UNDECIDED] * 8, ["Holm over the 8 comparisons of this report"], CLAIMS),
    Case("better alone, one of 16", arms(16, 0.3), [UNDECIDED] * 16, ["Holm over the 16 comparisons"], CLAIMS),
    Case("much better among 16", arms(16, 0.5), [BETTER] + [UNDECIDED] * 15, ["is better than"], ["is worse than"]),
)


def row_of(volume: float) -> Row:
    """The losses of a trial with this volume, as the fixture makes them."""
    edge = 8.0 * volume**0.5
    return {"forget_loss": edge, "forget_loss_capped": edge, "retain_loss": 8.0 - edge}


def said_of(study: LrStudy) -> str:
    """All that a study says."""
    return "\n".join([*(line for verdict in study.verdicts for line in words(verdict)), *study.notes])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_the_verdict_is_the_one_the_table_was_made_for(make_sweep: MakeSweep, row: MakeRow, case: Case) -> None:
    folders = [make_sweep(rows, name=f"sweep-{index}") for index, rows in enumerate(case.sweeps(row))]
    study = read_study(folders)
    assert [verdict.opponents[0].outcome for verdict in study.verdicts] == list(case.outcomes)
    text = said_of(study)
    assert [part for part in case.said if part not in text] == [], text
    assert [part for part in case.unsaid if part in text] == [], text
    for verdict in study.verdicts:
        # The bounds never contradict the outcome.
        single = verdict.opponents[0]
        if single.bounds is not None:
            low, high = single.bounds
            assert low <= single.result.mean <= high
            assert {BETTER: low >= 0, WORSE: high <= 0}.get(single.outcome, low <= 0 <= high or single.outcome == OPEN)


def test_there_are_enough_cases() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 38
