"""A report's section on a study: AutoLR against hand-tuned learning rates, the arms' indicators, the rates' ranks."""

from __future__ import annotations

from analysis.figures.selection import swept
from analysis.figures.study_data import subject
from analysis.page.data_table import DataTable
from analysis.study.fronts import ArmFronts, arm_fronts
from analysis.study.lr_grid import lr_grid
from analysis.study.lr_study import LrStudy, study_of
from analysis.study.probe_cost import with_probes
from analysis.study.sensitivity import Sensitivity
from analysis.study.verdict_words import words
from analysis.tables.sources import Sources
from analysis.tables.trial_table import TrialTable
from analysis.words import number


def study_data(sources: Sources) -> LrStudy | None:
    """The study, where every sweep tried a grid of learning rates; None elsewhere, and where none was tried twice.

    A search draws a new learning rate for every trial, so that no rate has a front of its own. Rows from elsewhere,
    which need no seed and no learning rate, are no part of it.
    """
    grids = all(sweep.settings.get("sampler") == "grid" for sweep in sources.sweeps)
    if not sources.sweeps or not grids or not sources.sweep.objectives:
        return None
    study = study_of([(with_probes(_own(sources), sources.auto_lr), sources.sweep.objectives)])
    return study if study.verdicts or _told(study) else None


def verdict_part(study: LrStudy) -> tuple[tuple[str, ...], tuple[DataTable, ...]]:
    """The verdicts in sentences, and the differences behind them."""
    sentences = tuple(dict.fromkeys(line for verdict in study.verdicts for line in words(verdict)))
    return tuple(f"{line}." for line in sentences), (_differences(study),)


def sensitivity_part(study: LrStudy) -> tuple[tuple[str, ...], tuple[DataTable, ...]]:
    """Each method's best rate and how far from it one may be, and AutoLR's place among the rates."""
    told = _told(study)
    return tuple(item.words() + "." for item in told), tuple(map(_rates, told))


def fronts_part(sources: Sources) -> tuple[DataTable, ...]:
    """The front of each method, and of AutoLR, against the pooled front; only where there are two or more."""
    if not sources.sweeps or not sources.sweep.objectives:
        return ()
    found = arm_fronts(lr_grid([(_own(sources), sources.sweep.objectives)]))
    return tuple(_arms(fronts) for fronts in found if len(fronts.indicators) > 1)


def _own(sources: Sources) -> TrialTable:
    return TrialTable(swept(sources.table.trials), sources.table.history, sources.table.spec_columns)


def _told(study: LrStudy) -> tuple[Sensitivity, ...]:
    """Methods with several rates, one of which has a whole front: with a single rate there is nothing to compare."""
    return tuple(item for item in study.sensitivity if len(item.rates) > 1 and any(row.seeds for row in item.rates))


def _differences(study: LrStudy) -> DataTable:
    rows = []
    for verdict in study.verdicts:
        for opponent in verdict.opponents:
            result = opponent.result
            interval = "\u2013" if result.low is None else f"{result.low:+.4f} to {result.high:+.4f}"
            rows.append(
                (
                    f"{subject(verdict, study)} against the {opponent.name}",
                    *(f"{result.mean:+.4f}", interval, str(result.n)),
                    *("\u2013" if opponent.p_holm is None else f"{opponent.p_holm:.3g}", opponent.outcome),
                )
            )
    columns = ("pair", "hypervolume, AutoLR minus hand-tuned", "95% interval", "fresh seeds", "p (Holm)", "AutoLR is")
    caption = "Paired over fresh seeds; the hand-tuned rate was chosen on other seeds."
    if any(verdict.same_seeds for verdict in study.verdicts):
        caption = "Paired over seeds; a hand-tuned rate that was chosen on the same seeds looks better than it is."
    return DataTable(caption, columns, tuple(rows))


def _arms(fronts: ArmFronts) -> DataTable:
    places = [f"hypervolume at {place:g}" for place in fronts.sensitivity.references[1:]]
    rows = []
    for index, (arm, found) in enumerate(fronts.indicators.items()):
        moved = map(number, fronts.sensitivity.hypervolumes[index][1:].tolist())
        rows.append(
            (arm, str(fronts.trials[arm]), *map(number, (found.hypervolume, found.igd_plus, found.epsilon)), *moved)
        )
    order = "stays the same" if fronts.sensitivity.stable else "changes"
    caption = (
        f"{fronts.model}, {fronts.dataset}: all trials of an arm against the front of all arms. This is no test: the "
        "front of more trials reaches further by chance alone. The arms' order by hypervolume "
        f"{order} when the reference point moves in from the worst corner (1)."
    )
    return DataTable(caption, ("arm", "trials", "hypervolume", "IGD+", "epsilon", *places), tuple(rows))


def _rates(item: Sensitivity) -> DataTable:
    rows = [(f"lr {number(row.lr)}", row) for row in item.rates]
    rows += [(f"AutoLR {place.variant} from {number(row.lr)}", row) for place in item.auto for row in place.starts]
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
