"""The paper's table: methods by metrics, without and with AutoLR, each at the configuration chosen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from analysis.comparison.choice import chosen, rule
from analysis.comparison.elsewhere import about_the_sweeps
from analysis.comparison.notes import UNPLACED, notes_on
from analysis.comparison.table import ComparisonTable, Entry, MethodRow, Value
from analysis.errors import AnalysisError
from analysis.study.placed_trials import PlacedTrials, placed_trials
from analysis.tables.columns import Columns
from analysis.tables.problems import Problem
from analysis.tables.sources import Sources, read_source, shared
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable


def comparison_parts(paths: Sequence[Path], columns: Columns) -> list[Sources]:
    """Every source with its objectives: sweep folders, and CSV files, whose ``columns`` the sweeps may add to.

    A CSV needs a column ``method`` and one for each metric. Its configurations are ranked by the primary metrics, as
    it has no losses' bounds (without those by a sweep's objectives); so are all where the sweeps have different
    objectives: those bounds are the same for all.

    Raises:
        AnalysisError: a source is neither, or cannot be read.
    """
    described = columns
    for path in paths:
        if (path / "sweep.json").is_file():
            described = read_source(path, columns).sweep.columns | described
    found = [read_source(path, described, sweep=f"{i + 1}: {path.name}") for i, path in enumerate(paths)]
    own = next((part.sweep.objectives for part in found if part.sweep.objectives), ())
    for place, part in enumerate(found):
        if not part.sweeps:
            found[place] = scored = _ranked_by_scores(part)
            if own and not scored.sweep.objectives:  # losses alone, in a sweep's bounds
                again = read_source(paths[place], described, sweep=f"{place + 1}: {paths[place].name}", objectives=own)
                found[place] = replace(again, sweep=replace(again.sweep, objectives=own))
    if len({tuple(item.column for item in part.sweep.objectives) for part in found}) > 1:
        return [_ranked_by_scores(part) for part in found]
    return found


def _ranked_by_scores(part: Sources) -> Sources:
    objectives = part.table.columns.primary_objectives(part.table.trials.columns)
    return replace(part, sweep=replace(part.sweep, objectives=objectives))


def comparison_data(parts: Sequence[Sources]) -> tuple[ComparisonTable, ...]:
    """A table for every problem: model and data set, and the target and data in which the trials on these differ.

    Raises:
        AnalysisError: no trial at all, or sweeps on one problem whose No-unlearn metrics differ: they had different
            targets.
    """
    named = about_the_sweeps({str(name): part for part in parts for name in part.table.trials["sweep"].unique()})
    if not named:
        raise AnalysisError("there is no trial to compare yet")
    if len(named) > 1:
        named = {name: _labelled(part, _source(name)) for name, part in named.items()}
    merged = TrialTable.merge([part.table for part in named.values()])
    sweep = shared({name: part.sweep for name, part in named.items()})
    boxes = [(part.table, part.sweep.objectives) for part in named.values()]
    placed = placed_trials(boxes, sweep, seeds_vary=sweep.seeds_vary)
    words = " ".join([rule(merged.columns), *(f"{note[:1].upper()}{note[1:]}." for note in placed.problems.notes)])
    tables = []
    problems = dict.fromkeys(placed.problems.of)
    for problem in problems:
        here = merged.of(merged.trials[[other == problem for other in placed.problems.of]])
        targets = _targets(problem, {name: named[str(name)] for name in here.trials["sweep"].unique()})
        unplaced = UNPLACED if len(problems) > 1 and not all(problem[:2]) else ()
        said = (*merged.notes, *placed.notes, *unplaced)
        tables.append(_table(problem, placed, here, targets, words, said))
    return tuple(tables)


def _source(name: str) -> str:
    """What a reader calls a source: without the number that tells two of one name apart."""
    return name.split(": ", 1)[-1]


def _labelled(part: Sources, name: str) -> Sources:
    """The source with its name before those of its trials."""
    table = part.table.renamed(f"{name}/".__add__, str)
    return replace(part, table=replace(table, notes=tuple(f"{name}: {note}" for note in table.notes)))


def _targets(problem: Problem, parts: Mapping[str, Sources]) -> SweepFile:
    """What the sweeps on a problem share, and of each trial there the No-unlearn model from which it started.

    Rows from elsewhere without a model before unlearning of their own are held against that of the others.
    """
    files = {name: part.sweep for name, part in parts.items()}
    file = shared(files)
    if not file.baseline and any(item.baseline for item in files.values()):
        own = ", ".join(_source(name) for name, item in files.items() if item.baseline)
        raise AnalysisError(
            f"the sweeps on {problem} have different No-unlearn models ({own}): compare each by itself, or use report, "
            "which holds every trial against that of its own sweep"
        )
    return replace(file, parts={name: item for name, item in files.items() if item.baseline or parts[name].sweeps})


def _table(
    problem: Problem, placed: PlacedTrials, here: TrialTable, targets: SweepFile, words: str, said: Sequence[str]
) -> ComparisonTable:
    trials = [trial for trial in placed.trials if trial.case.problem == problem]
    columns = here.columns
    # The paper's metrics, the losses, then every other metric.
    asked = [name for name in columns.metrics if columns[name].primary or name in columns.thresholds]
    metrics = here.measured(tuple(dict.fromkeys([*asked, *columns.losses, *columns.metrics])))
    rows = []
    for case in dict.fromkeys(trial.case for trial in trials):
        own = [trial for trial in trials if trial.case == case]
        arms = [[trial for trial in own if bool(trial.variant) is on] for on in (False, True)]
        rows.append(MethodRow(case.method, *(chosen(arm, placed, metrics, targets) for arm in arms)))
    values = {name: Value(targets.baseline[name], None, None) for name in metrics if name in targets.baseline}
    top = Entry("No-unlearn", 1, 0, values) if targets.baseline else None
    notes = (*said, *notes_on(here, rows, targets))
    return ComparisonTable(*problem, metrics, top, tuple(rows), words, notes)
