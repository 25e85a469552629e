"""Compute the audit of a sweep from its tables: the p-values of its models, and the meta-evaluation of its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from analysis.audit.conformal import pool_test, smallest_p
from analysis.audit.meta_evaluation import Estimate, faithfulness, robustness
from analysis.audit.pools import NEVER_SAW, SAW
from analysis.tables.columns import Column, Columns
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trade_off import Floats, measured
from analysis.tables.trial_table import TrialTable, numbers

LEVEL = 0.05
"""The level of both tests."""
IGNORANCE, KNOWLEDGE = "ignorance_p", "knowledge_p"
"""The columns with the p-values that a model is one more model of the pool that never saw, or saw, the forget set."""
_AFTER = "_after_"
_UTILITY = 0.8
"""Robustness is computed over models that keep at least this share of the target's utility."""
_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedModel:
    """A model of the sweep, compared with both pools.

    Attributes:
        ignorance_p: the p-value of the hypothesis that the model is one more model that never saw the forget set.
        knowledge_p: the same for models that saw it.
        metric: the metric in which the model deviates most from the models that never saw the forget set.
        value, mean, sd: the model's value, and mean and standard deviation of those models.
        attacked: whether the p-values include metrics after attacks.
        missing: the metrics after attacks that the pools have, but not the model. The p-values do not include them.
    """

    trial_id: str
    epoch: float
    step: int
    ignorance_p: float
    knowledge_p: float
    metric: str
    value: float
    mean: float
    sd: float
    attacked: bool
    missing: tuple[str, ...]

    @property
    def as_never_seen(self) -> bool | None:
        """Whether the model passes both tests at :data:`LEVEL`; None if it passes, but lacks metrics after attacks.

        It is not distinguishable from models that never saw the forget set, and it is distinguishable from models that
        saw it. A model that is exchangeable with those that saw it passes with a probability of at most 5%, and a model
        that is exchangeable with those that never saw it fails the first test with a probability of at most 5%.

        The tests are valid for any metrics that are chosen without the model's values. So a model that fails a test
        without the missing metrics has failed. A model that passes might still tell facts after the attacks.
        """
        passes = self.ignorance_p > LEVEL >= self.knowledge_p
        return None if passes and self.missing else passes


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricQuality:
    """The meta-evaluation of a metric.

    Attributes:
        faithfulness: None if it is unknown whether larger or smaller values of the metric mean more knowledge
            (:func:`knowledge_sign`).
        robustness: None if no attacked value of the metric was measured.
    """

    metric: str
    faithfulness: Estimate | None
    robustness: Estimate | None
    attacks: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The audit of a sweep.

    Attributes:
        never_saw, saw: the number of models in each pool.
        failed: the number of models that could not be fine-tuned.
        smallest_p: the smallest possible p-value with the smaller pool.
        metrics: the compared metrics, each with its meta-evaluation.
        models: the compared models, in the order of the tables. Models without a value of some metric are left out,
            except for metrics after attacks: a model is tested by those that it has.
    """

    never_saw: int
    saw: int
    failed: int
    smallest_p: float
    metrics: tuple[MetricQuality, ...]
    models: tuple[JudgedModel, ...]

    @property
    def can_reject(self) -> bool:
        """Whether both pools are large enough for a test at :data:`LEVEL`."""
        return self.smallest_p <= LEVEL

    @property
    def lacking_attacks(self) -> int:
        """The number of models that pass both tests, but are not judged because they lack metrics after attacks."""
        return sum(model.as_never_seen is None for model in self.models)

    def to_dict(self) -> dict[str, object]:
        """Return the content of audit.json. ``as_never_seen`` is None if it is not decided (:meth:`verdict`)."""
        models = [asdict(model) | {"as_never_seen": self.verdict(model)} for model in self.models]
        return asdict(self) | {
            "level": LEVEL,
            "can_reject": self.can_reject,
            "lacking_attacks": self.lacking_attacks if self.can_reject else None,
            "models": models,
        }

    def verdict(self, model: JudgedModel) -> bool | None:
        """Return whether a model passes both tests.

        The result is None if the smaller pool is too small to decide, or if the model passes, but lacks metrics after
        attacks.
        """
        return model.as_never_seen if self.can_reject else None


def audit_of(table: TrialTable, sweep: SweepFile) -> Audit | None:
    """Return the audit of a sweep; None if fewer than two models of a pool have been fine-tuned."""
    never_saw, saw = pool_rows(table, NEVER_SAW), pool_rows(table, SAW)
    names = compared_metrics(table)
    if min(len(never_saw), len(saw)) < _FEWEST or not names:
        return None
    ignorant, knowing = _values(never_saw, names), _values(saw, names)
    quality = tuple(_quality(table, sweep, name, knowing[:, i], ignorant[:, i]) for i, name in enumerate(names))
    return Audit(
        never_saw=len(never_saw),
        saw=len(saw),
        failed=len(table.audited) - len(never_saw) - len(saw),
        smallest_p=smallest_p(min(len(never_saw), len(saw))),
        metrics=quality,
        models=tuple(_judge(row, table, sweep, never_saw, saw) for _, row in judgeable_models(table).iterrows()),
    )


def pool_rows(table: TrialTable, pool: str) -> pd.DataFrame:
    """Return the rows of the fine-tuned models of a pool."""
    rows = table.audited
    return rows[(rows["method"] == pool) & (rows["status"] == "finished")] if len(rows) else rows


def compared_metrics(table: TrialTable) -> tuple[str, ...]:
    """Return the losses and metrics that all models of both pools have.

    Metrics that compare a model with the target are not measured in the pools, because they say from which weights a
    model started, and not what it knows.
    """
    rows = table.audited[table.audited["status"] == "finished"] if len(table.audited) else table.audited
    names = [name for name in table.columns.outcomes if name in rows.columns]
    return tuple(name for name in names if len(rows) and np.isfinite(numbers(rows, name)).all())


def item_steps(names: Sequence[str], columns: Columns, items: Mapping[str, float]) -> Floats:
    """Return by how much each metric changes if one item changes from the lowest to the highest value.

    It is 0 for losses and other metrics without bounds. ``items`` has the number of items of each metric. A metric
    after an attack has as many items as the metric without the attack.
    """
    steps = []
    for name in names:
        column, count = columns[name], items.get(name) or items.get(columns[name].attacked)
        low, high = column.bounds
        if column.role != "metric" or low is None or high is None or not count:
            steps.append(0.0)
        else:
            steps.append((high - low) / count)
    return np.array(steps)


def judgeable_models(table: TrialTable) -> pd.DataFrame:
    """Return the rows of the sweep's models with a value of each compared metric, except for those after attacks."""
    rows = table.models.finished
    names = tuple(name for name in compared_metrics(table) if not table.columns[name].attack)
    return rows[measured(_values(rows, names))]


def _values(rows: pd.DataFrame, names: tuple[str, ...]) -> Floats:
    return np.column_stack([numbers(rows, name).to_numpy() for name in names])


def _judge(
    row: pd.Series, table: TrialTable, sweep: SweepFile, never_saw: pd.DataFrame, saw: pd.DataFrame
) -> JudgedModel:
    model = row.to_frame().T.infer_objects()
    compared = compared_metrics(table)
    # Only metrics after attacks can be missing, because judgeable_models leaves out models without the others.
    names = tuple(name for name in compared if np.isfinite(numbers(model, name)).all())
    values, ignorant, knowing = _values(model, names)[0], _values(never_saw, names), _values(saw, names)
    steps = item_steps(names, table.columns, sweep.items)
    test = pool_test(ignorant, values, item_steps=steps)
    return JudgedModel(
        trial_id=str(row["trial_id"]),
        epoch=float(row["epoch"]),
        step=int(row["step"]),
        ignorance_p=test.p,
        knowledge_p=pool_test(knowing, values, item_steps=steps).p,
        metric=names[test.metric],
        value=float(values[test.metric]),
        mean=float(ignorant[:, test.metric].mean()),
        sd=float(ignorant[:, test.metric].std(ddof=1)),
        attacked=any(table.columns[name].attack for name in names),
        missing=tuple(name for name in compared if name not in names),
    )


def _quality(table: TrialTable, sweep: SweepFile, name: str, knowing: Floats, ignorant: Floats) -> MetricQuality:
    sign = knowledge_sign(table.columns[name])
    attacked = [column for column in table.columns.outcomes if table.columns[column].attacked == name]
    rows = _useful(table.models.finished, sweep)
    complete = [column for column in attacked if column in rows.columns and np.isfinite(numbers(rows, column)).any()]
    robust = None
    if complete:
        values = _values(rows, (name, *complete))
        values = values[np.isfinite(values).all(axis=1)]
        robust = robustness(values[:, 0], values[:, 1:]) if len(values) else None
    attacks = tuple(column.partition(_AFTER)[2] for column in complete)
    return MetricQuality(
        metric=name,
        faithfulness=None if sign is None else faithfulness(sign * knowing, sign * ignorant),
        robustness=robust,
        attacks=attacks if robust else (),
    )


def knowledge_sign(column: Column) -> float | None:
    """Return 1 if larger values of a metric mean more knowledge of the forget set, and -1 if smaller values do.

    - A metric of the forget set with a direction: the worse values.
    - A metric of the forget set with an ideal value: the values on the side that the metric states.
    - A metric of the retain set: 1 by convention. Its AUC should be near 0.5 with either sign.

    The sign is None (unknown) for metrics of the form of the answers, such as loops: a model that knows the forget set
    answers fluently, and so may a model that does not. It is also unknown for all other metrics, such as those of
    plug-ins that measure neither set.
    """
    if column.of == "retain":
        return 1.0
    knows = column.knows or {"max": "min", "min": "max"}.get(column.direction or "")
    if column.of != "forget" or column.is_form or knows is None:
        return None
    return 1.0 if knows == "max" else -1.0


def _useful(rows: pd.DataFrame, sweep: SweepFile) -> pd.DataFrame:
    name = next((name for name in sweep.columns.primaries(sweep.baseline) if sweep.columns[name].of == "retain"), "")
    return rows[numbers(rows, name) >= _UTILITY * sweep.baseline[name]] if name else rows
