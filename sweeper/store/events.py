"""The kinds of events in OUT/events.jsonl, and the format of a line.

A kind of event is a frozen dataclass. To add a kind, add a class to this file and a branch to
:meth:`sweeper.store.state.SweepState.apply`. A line of the file contains the fields of the class by name, and the name
of the class in ``kind``: ``{"seq": 2, "time": 1.7e9, "kind": "trial_started", "trial_id": "00000"}``.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from search_spaces.common.values import Value
from trainables.run.reports import EpochReport, Outcome

Settings = Mapping[str, Any]
"""The settings of a trial by name, such as ``lr``, in the format of trials.csv."""


class Phase(StrEnum):
    """What a trial is for. Only trials of the search count for budgets and the remaining time.

    A trial of the phase ``confirm`` trains the configuration of a trial of the search again, with a fresh seed. A trial
    of the phase ``audit`` fine-tunes the base model as the target was fine-tuned, with or without the forget set. A
    trial of the phase ``merge`` trains nothing: its model is merged from models of the sweep, and is a candidate, too.
    """

    SEARCH = "search"
    CONFIRM = "confirm"
    AUDIT = "audit"
    MERGE = "merge"

    @property
    def has_candidates(self) -> bool:
        """Whether the models of the phase are candidates of the sweep."""
        return self in (Phase.SEARCH, Phase.MERGE)


@dataclass(frozen=True, slots=True)
class OptunaTrial:
    """What Optuna stores about a proposed trial. ``study_attrs`` are the study's attributes that the proposal added.

    ``tried_before`` are the sampler's proposals since the previous trial that the sweep had already tried.
    """

    params: Mapping[str, Value] = field(default_factory=dict)
    user_attrs: Mapping[str, Any] = field(default_factory=dict)
    system_attrs: Mapping[str, Any] = field(default_factory=dict)
    study_attrs: Mapping[str, Any] = field(default_factory=dict)
    tried_before: tuple[OptunaTrial, ...] = ()


@dataclass(frozen=True, slots=True)
class Prior:
    """A trial of a previous sweep that could also run in this sweep with the same spec, so its result is comparable.

    ``values`` and ``violations`` are those of :class:`search_spaces.common.front.Point`. ``origin`` is FOLDER/ID.
    """

    config: Mapping[str, Value]
    values: tuple[float, ...]
    violations: tuple[float, ...]
    origin: str


@dataclass(frozen=True, slots=True)
class Merge:
    """How a model is merged from the last models of ``trials``.

    Attributes:
        rule, scale: the rule that merges the task vectors, and the factor of the merged vector.
        trials: the ids of the trials.
        finetuned: folders of models that were fine-tuned on the forget set, whose task vectors are negated.
        checkpoint: the folder of the model from which ``finetuned`` were fine-tuned; "" for the target.
    """

    rule: str
    trials: tuple[str, ...] = ()
    scale: float = 1.0
    finetuned: tuple[str, ...] = ()
    checkpoint: str = ""

    def row(self) -> dict[str, object]:
        """Return the columns of trials.csv."""
        merges = ",".join((*self.trials, *self.finetuned))
        return {"merges": merges, "merge_scale": self.scale, "merge_checkpoint": self.checkpoint or None}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a sweep."""

    kinds: ClassVar[dict[str, type[Event]]] = {}
    """The kinds of events, by the name in ``kind``."""

    def __init_subclass__(cls) -> None:
        cls.kinds[cls.kind()] = cls

    @classmethod
    def kind(cls) -> str:
        """Return the name of the class in the file: ``trial_started`` for ``TrialStarted``."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


@dataclass(frozen=True, slots=True)
class SweepStarted(Event):
    """A driver starts or resumes a sweep of ``trials`` trials."""

    trials: int


@dataclass(frozen=True, slots=True)
class SweepEnded(Event):
    """The driver ends the sweep."""

    status: Literal["finished", "interrupted"]


@dataclass(frozen=True, slots=True)
class SearchStarted(Event):
    """The search starts with trials of previous sweeps (priors), and tries some points (Optuna parameters) first."""

    points: tuple[Mapping[str, Value], ...]
    priors: tuple[Prior, ...]


@dataclass(frozen=True, slots=True)
class TrialEvent(Event):
    """Something that happened to a trial."""

    trial_id: str


@dataclass(frozen=True, slots=True)
class TrialProposed(TrialEvent):
    """A trial is proposed. ``confirms`` is the id of the trial whose configuration a confirm trial trains again.

    ``merge`` says how the model of a merge trial is made.
    """

    settings: Settings
    search: OptunaTrial = field(default_factory=OptunaTrial)
    phase: Phase = Phase.SEARCH
    confirms: str = ""
    merge: Merge | None = None


@dataclass(frozen=True, slots=True)
class TrialReused(TrialEvent):
    """The result of an earlier trial (FOLDER/ID) is copied. Events with the reports and the end follow."""

    origin: str


@dataclass(frozen=True, slots=True)
class TrialRequeued(TrialEvent):
    """The trial runs again. The reports of later steps than ``step`` are discarded; -1 discards all reports."""

    step: int


@dataclass(frozen=True, slots=True)
class TrialStarted(TrialEvent):
    """A worker starts or continues a trial."""


@dataclass(frozen=True, slots=True)
class TrialReported(TrialEvent):
    """An epoch ended."""

    report: EpochReport


@dataclass(frozen=True, slots=True)
class TrialCut(TrialEvent):
    """After the trial's last report, the scheduler decided that the trial does not continue.

    If ``waits`` is true, the trial pauses, its state is saved, and the scheduler may promote it later.
    """

    waits: bool


@dataclass(frozen=True, slots=True)
class TrialPromoted(TrialEvent):
    """The scheduler decided that a waiting trial continues."""


@dataclass(frozen=True, slots=True)
class StopRequested(TrialEvent):
    """A user asked to stop the trial after its current epoch."""


@dataclass(frozen=True, slots=True)
class TrialEnded(TrialEvent):
    """The trial ended."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class MetricsMeasured(TrialEvent):
    """The checkpoint of step ``step`` was scored after the end of all trials.

    ``metric_set`` is the set of the metrics, such as the name of an attack; "" for the metrics of the sweep's trials.
    It is None if ``metrics`` are not those of a set. Metrics without a value are left out.
    """

    step: int
    metrics: Mapping[str, float]
    metric_set: str | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A line of events.jsonl. ``seq`` counts from 0 without gaps; ``time`` is in seconds since 1970."""

    seq: int
    time: float
    event: Event

    @classmethod
    def new(cls, seq: int, event: Event) -> Record:
        """Return a record with the current time. Its event equals the event that will be read from the file."""
        return cls.from_line(cls(seq, time.time(), event).to_line())

    def to_line(self) -> bytes:
        kind = self.event.kind()
        values = _adapter(kind).dump_python(self.event, exclude_none=True)
        content = {"seq": self.seq, "time": self.time, "kind": kind, **values}
        return json.dumps(_json(content), allow_nan=False).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Record:
        """Convert a line of the file to a record.

        Raises:
            ValueError: the line is not an event of this version.
        """
        try:
            content = json.loads(line)
            adapter = _adapter(content.pop("kind"))
            return cls(content.pop("seq"), content.pop("time"), adapter.validate_python(content))
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors()]
            raise ValueError("; ".join(problems)) from None
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not an event: {error!r}") from None


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(Event.kinds[kind])


def _json(value: object) -> object:
    """Leave out NaN (a missing value), and replace infinity by the text ``inf``, because JSON has neither."""
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items() if item == item}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return value
