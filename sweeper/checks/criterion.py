"""The criterion of a sweep in words, before its target exists."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sweeper.checks.hub import downloads
from sweeper.settings.names import STUDY
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import column_dictionary
from sweeper.store.folder import UsageError
from trainables.metrics.registry import METRICS, metrics_in
from trainables.modality import dataset_modality
from trainables.target.target import target_spec_of


def criterion_text(settings: SweepSettings) -> str:
    """Return the requirements of a good model, and the metrics of the criterion that are left out."""
    from analysis.frontier.criterion import PAPER, requirements_of
    from analysis.report.render import render_line
    from analysis.tables.columns import Columns

    columns = Columns.from_dict(column_dictionary(unit=dataset_modality(settings.base.dataset).unit))
    name = PAPER if settings.kind == STUDY else settings.criterion
    requirements, left_out, unmeasured = requirements_of(
        name, settings.parsed_constraints, columns, _measured(settings)
    )
    return render_line("answer.planned", name=name, requirements=requirements, left_out=left_out, unmeasured=unmeasured)


def criterion_of_target(out: Path) -> str:
    """Return the requirements of a good model with their bounds, which follow from the target of the sweep in ``out``.

    Raises:
        UsageError: the target scores almost 0 in a metric of the criterion although it knows the data, so no model
            could be judged.
    """
    from analysis.frontier.criterion import criterion_of
    from analysis.report.render import render_line
    from analysis.tables.sweep_file import SweepFile

    criterion = criterion_of(SweepFile.read(out))
    if criterion.faults:
        raise UsageError(render_line("answer.no_judgement", criterion=criterion))
    return render_line("answer.in_force", criterion=criterion)


def _measured(settings: SweepSettings) -> Collection[str]:
    """Return the names of the metrics that the trials measure."""
    base = settings.measured_spec(settings.seed)
    if not any(item.kind == "dataset" for item in downloads(base)):
        return target_spec_of(base).metric_names()
    modality = dataset_modality(base.dataset).name
    return {name for name in metrics_in(base.metrics) if modality in METRICS[name].modalities}
