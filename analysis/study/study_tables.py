"""A study in tables, for the page and for the terminal: the rates, the arms' fronts, and the differences judged."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.frontier.indicators import Indicators
from analysis.study.fronts import ArmFronts
from analysis.study.lr_study import LrStudy
from analysis.study.sensitivity import Sensitivity
from analysis.tables.columns import Columns, short
from analysis.words import DataTable, number

_NOTHING = "\u2013"


def rates_table(item: Sensitivity, columns: Columns) -> DataTable:
    """The learning rates of a method, and AutoLR's starts among them."""
    rows = [(f"lr {number(row.lr)}", row) for row in item.rates]
    rows += [(f"AutoLR {place.variant} from {number(row.lr)}", row) for place in item.auto for row in place.starts]
    scores = columns.primaries(name for _, row in rows for name in row.metrics)
    boxes = list(dict.fromkeys(box for _, row in rows for box, volume in row.further.items() if volume == volume))
    cells = tuple(
        (
            *(name, number(row.hypervolume), number(row.deviation), str(row.seeds), str(row.diverged)),
            *(number(row.further[box]) for box in boxes),
            *(number(row.metrics.get(score)) for score in scores),
        )
        for name, row in rows
    )
    head = (
        *("learning rate", "hypervolume", "\u00b1 over seeds", "seeds", "diverged"),
        *(f"hypervolume, {box}" for box in boxes),
        *map(short, scores),
    )
    return DataTable(f"{item.case}: mean over seeds.", head, cells)


def arms_table(fronts: ArmFronts) -> DataTable:
    """Each arm's front against the front of all arms."""
    sensitivity = fronts.sensitivity
    rows = tuple(
        (
            *(arm, str(fronts.trials[arm])),
            *map(number, (found.hypervolume, found.igd_plus, found.epsilon, *moved[1:].tolist())),
            *(cell for box in fronts.further.values() for cell in _box(box.get(arm))),
        )
        for (arm, found), moved in zip(fronts.indicators.items(), sensitivity.hypervolumes, strict=True)
    )
    caption = (
        f"{fronts.place}: all trials of an arm against the front of all arms. This is no test: the "
        "front of more trials reaches further by chance alone. The arms' order by hypervolume "
        f"{'stays the same' if sensitivity.stable else 'changes'} when the reference point moves in from the worst "
        "corner (1)."
    )
    places = (f"hypervolume at {place:g}" for place in sensitivity.references[1:])
    boxes = (f"{name}, {box}" for box in fronts.further for name in ("hypervolume", "epsilon"))
    return DataTable(caption, ("arm", "trials", "hypervolume", "IGD+", "epsilon", *places, *boxes), rows)


def _box(found: Indicators | None) -> tuple[str, str]:
    return (number(found.hypervolume), number(found.epsilon)) if found else (_NOTHING, _NOTHING)


def differences_table(study: LrStudy) -> DataTable:
    """The differences behind the verdicts."""
    caption = (
        "Paired over fresh seeds; the hand-tuned rate was chosen on other seeds. The interval holds for any bounded "
        f"differences and for {_together(study)}; the paired-t interval is a description, right for normal ones."
    )
    if any(verdict.same_seeds for verdict in study.verdicts):
        caption = "Paired over seeds; a hand-tuned rate that was chosen on the same seeds looks better than it is."
    head = (
        *("pair", "hypervolume, AutoLR minus hand-tuned", "95% interval", "fresh seeds", "ahead on", "p (Holm)"),
        *("AutoLR is", "paired-t interval"),
    )
    return DataTable(caption, head, tuple(_differences(study)))


def _together(study: LrStudy) -> str:
    """What the intervals hold for together: a primary question is a family of its own."""
    if any(opponent.primary for verdict in study.verdicts for opponent in verdict.opponents):
        return "the primary question by itself, and for all other rows together"
    return "all rows together"


def _differences(study: LrStudy) -> Iterator[tuple[str, ...]]:
    for verdict in study.verdicts:
        for opponent in verdict.opponents:
            result = opponent.result
            yield (
                f"{study.subject(verdict)} against the {opponent.name}" + (" (primary)" if opponent.primary else ""),
                f"{result.mean:+.4f}",
                _interval(opponent.bounds),
                str(result.n),
                _NOTHING if result.ahead is None else f"{result.ahead}{f', {result.tied} tied' if result.tied else ''}",
                _NOTHING if opponent.p_holm is None else f"{opponent.p_holm:.3g}",
                opponent.outcome,
                _interval(result.t_interval),
            )


def _interval(ends: tuple[float, float] | None) -> str:
    return _NOTHING if ends is None else f"{ends[0]:+.4f} to {ends[1]:+.4f}"
