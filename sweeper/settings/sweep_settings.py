"""A sweep's settings: what is fixed, what varies, how it is searched, where it runs. Written to sweep.json."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from search_spaces.constraint import Constraint, parse_constraint
from search_spaces.parameters import Choice
from search_spaces.space import Space
from search_spaces.values import Value
from sweeper.settings.objectives import DEFAULT_OBJECTIVES, Objective, parse_objectives
from sweeper.settings.resources import AUTO, Resources, gpus_here
from sweeper.settings.sources import Raw, from_json, to_json
from sweeper.settings.tracking_uri import shown_uri
from trainables.candidates import Goals
from trainables.methods import option_names, parse_method
from trainables.spec import FIELDS, TrialSpec
from trainables.storage import Storage, is_address

FRONT_METRICS = 8
"""Of how many epochs on the front, the nearest to the ideal corner, the costly metrics are measured."""
ALL, LAST = "all", "last"
CANDIDATES = (ALL, LAST)
"""Which epochs of a trial may be on the frontier, in the words of ``--candidates``."""
PARETO, LR_STUDY = "pareto", "lr-study"
"""What a sweep is run for, which decides what its end says."""
SEEDS_VARY: Mapping[str, str | None] = MappingProxyType({"order": None, "target": "target_seed", "data": "data_seed"})
"""What the seeds may vary besides the order of examples, and the field of a trial that has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """Everything that is needed to run a sweep again.

    Of a learning-rate study, ``primary`` names its one question that is not corrected for the others, and ``extension``
    has the points that ``extend`` has added to its grid.
    ``gpus_per_trial`` is at most 1, or "auto": see :mod:`sweeper.execution.gpu_shares`.
    ``candidates``: whether every epoch of a trial may be on the frontier ("all"), or its last ("last").
    ``scheduler`` ends trials early (``stopping`` "stop") or lets them wait ("pause"); ``grace`` and ``reduction`` are
    its rungs, see :func:`sweeper.search.halving.rungs`.
    ``constraints`` are thresholds as :func:`search_spaces.constraint.parse_constraint` reads them, ``until`` is what
    :func:`sweeper.search.stopping.parse_until` reads; ``enqueue`` has the points that are tried first, by plain names;
    ``warm_start`` and ``reuse`` are folders of earlier sweeps.
    ``ship``: whether the nodes of a cluster get this project from the driver.
    ``storage`` is a folder for Ray's states, or the address of a storage that everything travels through; there the
    sweep is in the folder ``stored_as``, named when it begins.
    ``given`` has the values that the user gave, each with its source.
    ``base`` has the fields that do not vary; ``space`` proposes the rest, by name: ``method``, ``lr``, ``auto_lr``,
    any method option, and any other field of a trial's spec.
    """

    name: str
    base: TrialSpec
    space: Space
    trials: int
    sampler: str = "tpe"
    seeds: int = 1
    seed: int = 0
    objectives: str = DEFAULT_OBJECTIVES
    cpus_per_trial: float = 1.0
    gpus_per_trial: float | str = 0.0
    max_concurrent: int | None = None
    address: str | None = None
    ship: bool = True
    storage: str | None = None
    stored_as: str = ""
    tracking_uri: str = "sqlite:///mlflow.db"
    experiment: str = "unlearning"
    time_budget_seconds: float | None = None
    command: str = ""
    kind: str = PARETO
    seeds_vary: str = "order"
    primary: str | None = None
    extend: bool = False
    extension: tuple[Mapping[str, Any], ...] = ()
    candidates: str = ALL
    scheduler: str = "none"
    grace: int = 1
    reduction: int = 2
    stopping: str = "stop"
    front_metrics: int = FRONT_METRICS
    constraints: tuple[str, ...] = ()
    enqueue: tuple[Mapping[str, Value], ...] = ()
    warm_start: tuple[str, ...] = ()
    reuse: tuple[str, ...] = ()
    epoch_budget: int | None = None
    until: str | None = None
    given: Raw = field(default_factory=dict)

    @property
    def resources(self) -> Resources:
        """What one trial takes; where shares are measured, the first of its class."""
        gpus = self.gpus_per_trial
        if gpus == AUTO:
            gpus = 1.0 if self.address or gpus_here() else 0.0
        return Resources(cpus=self.cpus_per_trial, gpus=float(gpus))

    @property
    def shares_gpus(self) -> bool:
        """Whether a trial's share of a GPU is measured: on this machine only where there is one."""
        return self.gpus_per_trial == AUTO and self.resources.gpus > 0

    @property
    def parsed_objectives(self) -> tuple[Objective, ...]:
        """The objectives, in the order of the search."""
        return parse_objectives(self.objectives)

    @property
    def parsed_constraints(self) -> tuple[Constraint, ...]:
        """Which results are acceptable."""
        return tuple(map(parse_constraint, self.constraints))

    @property
    def goals(self) -> Goals:
        """What every epoch is judged by; nothing where only the last one of a trial counts."""
        every = self.candidates == ALL
        return tuple((item.column, item.direction) for item in self.parsed_objectives) if every else ()

    @property
    def params(self) -> dict[str, object]:
        """What its trials are asked to do, by name: values that all of them have, and the ranges of those that vary."""
        values = {name: value for name, value in self.base.row().items() if name in FIELDS}
        seeds = ", ".join(map(str, self.all_seeds))
        varied = {name: seeds for name in ("seed", SEEDS_VARY[self.seeds_vary]) if name and self.seeds > 1}
        searched = self.space.format_values(grid=self.sampler == "grid")
        return {**values, **dict(self.base.options), **varied, **searched}

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of its trials, by name."""
        searched = [item for item in self.space.parameters if item.name == "method" and isinstance(item, Choice)]
        names = [str(value) for item in searched for value in item.values]
        return tuple(dict.fromkeys(names)) or (str(self.space.constants.get("method", self.base.method)),)

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """``seed, seed + 1, ...``, one per repetition of a configuration."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def target_seeds(self) -> tuple[int, ...]:
        """The seeds with a target of their own; the first one, where all share it."""
        return self.all_seeds if SEEDS_VARY[self.seeds_vary] else self.all_seeds[:1]

    def base_of(self, seed: int) -> TrialSpec:
        """``base`` for the trials of a seed, with the seed of its target or of its data where it varies that."""
        varied: dict[str, Any] = {name: seed} if (name := SEEDS_VARY[self.seeds_vary]) else {}
        return replace(self.base, **varied)

    def ray_storage(self, out: Path) -> Path:
        """The folder for Ray Tune's own state, absolute: OUT/ray, or one of this sweep's own under ``storage``."""
        if self.storage is None:
            return out.resolve() / "ray"
        digest = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:8]
        return Path(self.storage).resolve() / f"{out.resolve().name}-{digest}"

    @property
    def bucket(self) -> Storage | None:
        """The sweep's own part of the storage that everything travels through; None where all see the same folders."""
        if self.storage is None or not is_address(self.storage):
            return None
        return Storage(self.storage).within(self.stored_as)

    def shared(self, *folders: Path) -> tuple[Path, ...]:
        """Of these, the folders that every node must see."""
        return () if self.bucket is not None else folders

    def make_spec(self, config: Mapping[str, Any], *, target_key: str) -> TrialSpec:
        """The spec of the trial the space proposed; options that do not apply to its method are left out."""
        values = dict(config)
        method = parse_method(str(values.get("method", self.base.method)))
        given = dict(self.base.options) | {name: values.pop(name) for name in option_names() if name in values}
        options = method.resolve({name: float(value) for name, value in given.items()})
        base = self.base_of(int(values.get("seed", self.seed)))
        return replace(base, **values, options=tuple(sorted(options.items())), target_key=target_key)

    def to_dict(self) -> dict[str, object]:
        """A JSON-able mapping, read back by :meth:`from_dict`; without the password of the tracking address."""
        return asdict(self) | {
            "base": self.base.to_dict(),
            "space": self.space.to_dict(),
            "tracking_uri": shown_uri(self.tracking_uri),
            "given": to_json(self.given),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SweepSettings:
        """The settings :meth:`to_dict` made."""
        given = dict(values)
        given["base"] = TrialSpec.from_dict(given["base"])
        given["space"] = Space.from_dict(given["space"])
        given["extension"] = tuple(given.get("extension", ()))
        given.setdefault("candidates", LAST)  # of a sweep that was begun when no other epoch was recorded
        for name in ("constraints", "enqueue", "warm_start", "reuse"):
            given[name] = tuple(given.get(name, ()))
        given["given"] = from_json(given.get("given", {}))
        return cls(**given)
