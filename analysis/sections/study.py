"""A report's section on a study: AutoLR against hand-tuned learning rates, the arms' indicators, the rates' ranks."""

from __future__ import annotations

from analysis.autolr_verdict import Verdict, words
from analysis.lr_study import LrStudy, study_of
from analysis.sections.tables import DataTable
from analysis.sensitivity import Sensitivity
from analysis.sources import Sources
from analysis.study_fronts import ArmFronts
from analysis.words import number


def study_data(sources: Sources) -> LrStudy | None:
    """The study, where every sweep tried a grid of learning rates with and without AutoLR; None elsewhere.

    A search draws a new learning rate for every trial, so that no rate has a front of its own.
    """
    grids = all(sweep.settings.get("sampler") == "grid" for sweep in sources.sweeps)
    if not sources.sweeps or not grids or not sources.sweep.objectives or "auto_lr" not in sources.table.trials:
        return None
    study = study_of([(sources.table, sources.sweep.objectives)])
    return study if study.verdicts else None


def verdict_part(study: LrStudy) -> tuple[tuple[str, ...], tuple[DataTable, ...]]:
    """The verdicts in sentences, and the arms' fronts."""
    sentences = tuple(dict.fromkeys(line for verdict in study.verdicts for line in words(verdict)))
    capital = tuple(line[0].upper() + line[1:] + "." for line in sentences)
    return capital, (_differences(study.verdicts), *map(_arms, study.fronts))


def sensitivity_part(study: LrStudy) -> tuple[tuple[str, ...], tuple[DataTable, ...]]:
    """Each method's best rate and how far from it one may be, and AutoLR's place among the rates."""
    lines = tuple(item.words() + "." for item in study.sensitivity)
    return lines, tuple(map(_rates, study.sensitivity))


def _differences(verdicts: tuple[Verdict, ...]) -> DataTable:
    rows = []
    for verdict in verdicts:
        for opponent in verdict.opponents:
            result = opponent.result
            interval = "\u2013" if result.low is None else f"{result.low:+.4f} to {result.high:+.4f}"
            rows.append(
                (
                    f"{verdict.problem.method}, AutoLR {verdict.variant} against the {opponent.name}",
                    *(f"{result.mean:+.4f}", interval, str(result.n)),
                    *("\u2013" if opponent.p_holm is None else f"{opponent.p_holm:.3g}", opponent.outcome),
                )
            )
    columns = ("pair", "hypervolume, AutoLR minus hand-tuned", "95% interval", "fresh seeds", "p (Holm)", "AutoLR is")
    return DataTable("Paired over fresh seeds; the hand-tuned rate was chosen on other seeds.", columns, tuple(rows))


def _arms(fronts: ArmFronts) -> DataTable:
    places = [f"hypervolume at {place:g}" for place in fronts.sensitivity.references[1:]]
    rows = []
    for index, (arm, found) in enumerate(fronts.indicators.items()):
        moved = map(number, fronts.sensitivity.hypervolumes[index][1:].tolist())
        rows.append((arm, *map(number, (found.hypervolume, found.igd_plus, found.epsilon)), *moved))
    order = "stays the same" if fronts.sensitivity.stable else "changes"
    caption = (
        f"{fronts.model}, {fronts.dataset}: all trials of an arm against the front of all arms. The arms' order by "
        f"hypervolume {order} when the reference point moves in from the worst corner (1)."
    )
    return DataTable(caption, ("arm", "hypervolume", "IGD+", "epsilon", *places), tuple(rows))


def _rates(item: Sensitivity) -> DataTable:
    rows = [(f"lr {row.lr:g}", row) for row in item.rates]
    rows += [(f"AutoLR {place.variant} from {row.lr:g}", row) for place in item.auto for row in place.starts]
    caption = f"{item.problem.method} on {item.problem.model}, {item.problem.dataset}: mean over seeds."
    columns = ("learning rate", "hypervolume", "\u00b1 over seeds", "seeds", "diverged", "verbmem", "utility")
    cells = tuple(
        (
            *(name, number(row.hypervolume), number(row.deviation), str(row.seeds), str(row.diverged)),
            *(number(row.metrics.get(metric)) for metric in ("verbmem", "utility")),
        )
        for name, row in rows
    )
    return DataTable(caption, columns, cells)
