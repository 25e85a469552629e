"""The unlearning problem a spec names: its data, and the metrics they cannot give as it stands."""

from __future__ import annotations

from pathlib import Path

from trainables.data import ProblemData, load_data
from trainables.scoring.choice import metrics_of
from trainables.spec import TrialSpec


def load_problem(spec: TrialSpec) -> ProblemData:
    """The spec's data.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    return load_data(
        spec.dataset,
        forget_split=spec.forget_split,
        forget_class=spec.forget_class,
        data_dir=Path(spec.data_dir) if spec.data_dir else None,
        limit=spec.limit,
    )


def left_out_without_retain_model(spec: TrialSpec, data: ProblemData) -> tuple[str, ...]:
    """Of the spec's sets of metrics those that a retain model would give, where none is given and none can be trained.

    Raises:
        MetricError: a metric asked for by name cannot be had.
    """
    measured = metrics_of(spec.metrics, data, retain_model=spec.may_have_retain_model)
    return tuple(name for name in metrics_of(spec.metrics, data) if name not in measured)
