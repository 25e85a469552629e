"""The model that a sweep's answer names: chosen once, shown by the report, ``pick``, the figures and MLflow."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.frontier.frontier import takeable
from analysis.frontier.judgement import Judgement, judge
from analysis.frontier.thresholds import Thresholds, thresholds_of
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable


@dataclass(frozen=True, slots=True, eq=False)
class ModelChoice:
    """The models ``rows`` that were considered, and what judging them by the ``thresholds`` came to."""

    rows: pd.DataFrame
    thresholds: Thresholds
    judgement: Judgement

    @property
    def row(self) -> pd.Series | None:
        """The model to take or, if none is recommended, the closest one; None if no model can be judged."""
        return None if self.judgement.place is None else self.rows.iloc[self.judgement.place]


def choose_model(table: TrialTable, sweep: SweepFile) -> ModelChoice:
    """Judge every model of the sweep's own trials that may be taken.

    Raises:
        AnalysisError: the table lacks a column of the objectives.
    """
    rows = takeable(table.own, sweep.objectives).trials
    thresholds = thresholds_of(sweep)
    return ModelChoice(rows, thresholds, judge(rows, thresholds, sweep.columns, sweep.objectives))
