"""The command ``merge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sweeper.cli.options import command, json_option
from sweeper.cli.outcome import run_to_the_end
from sweeper.settings.options import MergeOptions
from sweeper.settings.reading import located, read
from sweeper.settings.sources import Raw, raise_if_any

if TYPE_CHECKING:
    from sweeper.store.events import Merge
    from sweeper.store.state import Trial


@command(
    MergeOptions,
    click.argument("folder", type=click.Path()),
    json_option("Print the summary of the sweep as JSON on stdout."),
)
def merge(raw: Raw, problems: list[str], *, folder: str, as_json: bool) -> None:
    """Merge models of the sweep in FOLDER into one model, without training. It becomes a candidate of the sweep.

    The merged model has the target's weights plus --scale times the merged task vectors of the trials' last models. A
    task vector is the difference of a model's weights and the target's. The merged model is a trial of the phase merge:
    it is measured, judged, attacked and reported like the models of the other trials. If the command is interrupted,
    resume continues it.

    \b
    negmerge  the mean of the vectors where all have the same sign, and 0 elsewhere
    mean      the mean of the vectors
    """
    from sweeper.store.plugins import restore_plugins

    out = Path(folder)
    restore_plugins(out)  # run_to_the_end prints the messages
    from sweeper.checks.merging import planned_merge

    options, found = read(MergeOptions, raw, problems)
    plan, merge_problems = planned_merge(options, out)
    raise_if_any(located([*found, *merge_problems], raw))
    run_to_the_end(out, as_json=as_json, search=False, merge=plan)
    trial = _merge_trial(out, plan)
    if not as_json:
        _print_merged(out, trial)


def _merge_trial(out: Path, plan: Merge) -> Trial:
    """Return the finished trial of the merge.

    Raises:
        SweepError: the models cannot be merged, or the merged model cannot be measured.
    """
    from sweeper.store.event_log import read_state
    from sweeper.store.events import Phase
    from sweeper.store.folder import SweepError

    trial = [trial for trial in read_state(out).trials_of(Phase.MERGE) if trial.merge == plan][-1]
    if trial.outcome is not None and trial.outcome.error is not None:
        raise SweepError(f"the merge failed ({trial.id}): {trial.outcome.error}")
    return trial


def _print_merged(out: Path, trial: Trial) -> None:
    """Print how the merged model compares with the criterion of the sweep."""
    from analysis.report.pick import judged_model
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable
    from analysis.words import format_settings

    sweep = SweepFile.read(out)
    table = TrialTable.read(out, sweep=sweep.name)
    models = table.models.trials
    row = models[models["trial_id"] == trial.id].iloc[0]
    click.echo(f"{trial.id}: {format_settings(row, ())}")
    for line in judged_model(row, table, sweep, "").lines:
        click.echo(f"  {line}")
    click.echo(f"model: {out / str(row['checkpoint'])}")
