"""What MLflow is told of the sweep and of a trial: names, parameters, tags and metrics, within MLflow's limits."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from sweeper.followers.mlflow.logged import LoggedData
from sweeper.store.columns import PARAMETERS
from trainables.run.reports import Status

SWEEP = "sweep"
"""The trial id of the parent run."""

NOTE = "mlflow.note.content"
"""The tag that MLflow's UI shows as the description of a run, read as Markdown."""

SHOWN = "shown"
"""The tag of a parent run that says which metrics of its trials are looked at first."""

NO_DATA: Mapping[str, LoggedData] = MappingProxyType({})

MLFLOW_STATUS = {
    Status.FINISHED: "FINISHED",
    Status.STOPPED: "KILLED",
    "interrupted": "KILLED",
    Status.DIVERGED: "FAILED",
    Status.FAILED: "FAILED",
}

_NAME_LENGTH = 250
_PARAM_LENGTH = 6000
_TAG_LENGTH = 5000  # MLflow 3 takes 8,000, servers before 2.16 take 5,000
_NOT_IN_NAMES = re.compile(r"[^\w.\- ]")


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run as it begins; ``at`` in milliseconds since 1970, ``data`` what it is trained on."""

    name: str
    params: dict[str, str]
    tags: dict[str, str]
    at: int
    data: LoggedData | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The model that a sweep's answer recommends.

    ``epoch`` is None if it is the end of the trial, whose own run holds that model; ``checkpoint`` is relative to the
    sweep's folder and "" if no checkpoint is there; ``description`` is Markdown.
    """

    trial_id: str
    epoch: str | None
    checkpoint: str
    description: str

    @property
    def run_key(self) -> str:
        """The key of its run: the trial id if the run is the trial's own."""
        return self.trial_id if self.epoch is None else epoch_run_key(self.trial_id, self.epoch)


def epoch_run_key(trial_id: str, epoch: str) -> str:
    """The key, and the start of the name, of the run of an epoch that is not the end of its trial."""
    return f"{trial_id} epoch {epoch}"


def trial_run(
    trial_id: str, row: Mapping[str, object], *, sweep_name: str, data: Mapping[str, LoggedData] = NO_DATA
) -> NewRun:
    """The run of a trial, of its spec's row as it begins or of its row in trials.csv; ``data`` by its seed."""
    tags = {name: row.get(name) for name in ("spec_hash", "method", "auto_lr")}
    return NewRun(
        run_name(trial_id, row),
        fit_params({name: row.get(name) for name in PARAMETERS}),
        fit_tags({**tags, "sweep": sweep_name, "status": "running"}),
        milliseconds(row.get("started_at") or row.get("ended_at")),
        data.get(str(row.get("data_seed") or 0)),
    )


def milliseconds(seconds: object) -> int:
    """A moment in seconds since 1970, or as a table has it, in MLflow's unit; now where there is none."""
    return int(1000 * (float(str(seconds)) if seconds not in (None, "") else time.time()))


def finite_metrics(values: Mapping[str, object], names: Iterable[str]) -> dict[str, float]:
    """The named metrics that are finite numbers. MLflow would keep NaN as 0 and infinity as 1.8e308 in its plots."""
    found = {}
    for name in names:
        try:
            number = float(values.get(name))  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            found[_fit_name(name)] = number
    return found


def fit_params(values: Mapping[str, object], *, length: int = _PARAM_LENGTH) -> dict[str, str]:
    """Parameters as text, cut to MLflow's length; one that does not apply (None, or empty in a CSV) is left out."""
    return {_fit_name(name): _cut(str(value), length) for name, value in values.items() if value not in (None, "")}


def fit_tags(values: Mapping[str, object]) -> dict[str, str]:
    """Tags in the same way."""
    return fit_params(values, length=_TAG_LENGTH)


def run_name(trial_id: str, params: Mapping[str, object]) -> str:
    """What tells runs apart at a glance: ``00007 gdiff c=0.4 lr=1e-4``, with ``auto`` when AutoLR sets the rate."""
    parts = [trial_id, str(params.get("method") or "")]
    parts += [f"{key}={_short(params[key])}" for key in ("c", "lr") if params.get(key) not in (None, "")]
    parts += ["auto"] if params.get("auto_lr") == "on" else []
    return _cut(" ".join(filter(None, parts)), _NAME_LENGTH)


def _short(value: object) -> str:
    number = float(str(value))
    if number == 0 or 1e-2 <= abs(number) < 1e5:
        return f"{number:.3g}"
    mantissa, _, exponent = f"{number:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def _fit_name(name: str) -> str:
    # MLflow's names are paths: 'a//b', '../a' and '/a' are refused.
    return _NOT_IN_NAMES.sub("_", str(name))[:_NAME_LENGTH].lstrip(".") or "_"


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
