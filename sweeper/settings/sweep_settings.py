"""The settings of a sweep, which are stored in sweep.json."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from search_spaces.common.objective import Objective
from search_spaces.common.values import Value
from search_spaces.constraint import Constraint, parse_constraint
from search_spaces.parameters import Choice
from search_spaces.space import Space
from sweeper.settings.names import DEFAULT_TRACKING, NO_FRESH_RUNS, NO_SCHEDULER, PARETO
from sweeper.settings.objectives import parse_objectives
from sweeper.settings.options import (
    COMMANDS,
    ParetoFields,
    PlacementFields,
    ResumeOptions,
    SearchFields,
    StudyFields,
    SweepOptions,
)
from sweeper.settings.resources import AUTO, Resources, local_gpu_count
from sweeper.settings.sources import Raw, command_line, from_json, to_json
from sweeper.settings.tracking_uri import redact_uri
from trainables.attacks.registry import metric_sets, parse_attacks
from trainables.methods import option_names, parse_method
from trainables.metrics.registry import METRICS, metrics_in
from trainables.spec import FIELDS, TrialSpec
from trainables.storage import Storage, is_address

ALL, LAST = "all", "last"
"""The values of ``--candidates``: which epochs of each trial may be on the frontier."""
RUN_STATES = "ray"
"""The name of Ray Tune's folder in the sweep's folder or in the bucket."""
AUTOMATIC_RUNS = 3
"""The number of fresh runs of a configuration if ``--confirm`` is not given."""
_MEASURED_EPOCHS, _ATTACKED_MODELS = 24, 8
"""The default of ``--front-metrics``. The report page has room for the answers of 24 models (MAX_MODELS)."""
ATTACK_EPSILON = 0.02
"""The default distance from the frontier within which stored models are attacked."""
ORDER = "order"
SEEDS_VARY: Mapping[str, str | None] = MappingProxyType({ORDER: None, "target": "target_seed", "data": "data_seed"})
"""For each value of ``--seeds-vary``, the trial field that is set to the seed, or None."""


@dataclass(frozen=True, kw_only=True)
class SweepSettings(PlacementFields, StudyFields, ParetoFields, SearchFields):
    """The settings of a sweep: the options of the command that started it, with all defaults resolved.

    The fields are sufficient to run the sweep again.

    Attributes:
        base: the values that all trials share, as the spec of a trial.
        space: the search space of the values that vary.
        kind: the command that started the sweep (``pareto`` or ``lr-study``), or ``unlearn`` for a single run.
        gpus_per_trial: a number in [0, 1], or "auto" to choose GPU shares from measured memory
            (:mod:`sweeper.execution.gpu_shares`).
        storage: the folder for Ray Tune's state, or the address of a bucket; None for the sweep's folder.
        stored_as: the name of the sweep's folder in the bucket.
        grace, reduction: the arguments of :func:`sweeper.settings.search.rungs`.
        extension: the points that ``--extend`` added to the grid of a learning-rate study.
        constraints: thresholds in the format of :func:`search_spaces.constraint.parse_constraint`.
        until: a stopping rule in the format of :func:`sweeper.settings.until.parse_until`.
        enqueue: the configurations to try first.
        confirm: the number of fresh runs of the recommended configuration and, if it does not hold, of its runners-up;
            "none" for no run; None for :data:`AUTOMATIC_RUNS` if these are cheap
            (:data:`sweeper.search.confirmation.AUTOMATIC_SHARE`).
        attacks: the attacks on stored models, in the format of :func:`trainables.attacks.registry.parse_attacks`.
        after_search: the metric sets of ``--metrics`` that are measured on stored models only, like attacks.
        attack_epsilon: how far from the frontier a stored model may be to be attacked, too, as a share of the range of
            each objective.
        confirm_trial, confirm_epoch: the model whose configuration is trained again, instead of the recommended model;
            "" and None for the recommended model.
        audit: the number of models in each pool of the audit (:mod:`sweeper.search.audit`); 0 without an audit.
        given: the unparsed option values that the user gave.
    """

    name: str
    base: TrialSpec
    space: Space
    trials: int
    scheduler: str = NO_SCHEDULER
    gpus_per_trial: float | str = 0.0
    stored_as: str = ""
    tracking_uri: str = DEFAULT_TRACKING
    kind: str = PARETO
    extension: tuple[Mapping[str, Any], ...] = ()
    enqueue: tuple[Mapping[str, Value], ...] = ()
    confirm: int | str | None = NO_FRESH_RUNS
    after_search: tuple[str, ...] = ()
    attack_epsilon: float = ATTACK_EPSILON
    confirm_trial: str = ""
    confirm_epoch: float | None = None
    audit: int = 0
    given: Raw = field(default_factory=dict)

    @classmethod
    def from_options(cls, options: SweepOptions, *, base: TrialSpec, space: Space, trials: int) -> SweepSettings:
        """Return the settings of a new sweep that are the values of its options."""
        shared_names = {item.name for item in fields(cls)} & {item.name for item in fields(options)}
        values: dict[str, Any] = {name: getattr(options, name) for name in shared_names - {"enqueue"}}
        settings = cls(
            **{**values, "name": "", "base": base, "space": space, "trials": trials, "kind": options.command}
        )
        name = "-".join([settings.kind, *settings.methods[:3], base.model, base.dataset])
        return replace(settings, name=name.replace("+", "_").replace("/", "_"))

    @property
    def command(self) -> str:
        """The command line that repeats the sweep."""
        return command_line(COMMANDS[self.kind], self.given)

    @property
    def ship(self) -> bool:
        """Whether Ray copies the project's source code to the nodes of a cluster."""
        return not self.no_ship

    @property
    def resources(self) -> Resources:
        """The resources of a trial. With shared GPUs, the resources of a trial whose memory is not measured yet."""
        gpus = self.gpus_per_trial
        if gpus == AUTO:
            gpus = 1.0 if self.address or local_gpu_count() else 0.0
        return Resources(cpus=self.cpus_per_trial, gpus=float(gpus))

    @property
    def shares_gpus(self) -> bool:
        """Whether trials share GPUs according to their measured memory."""
        return self.gpus_per_trial == AUTO and self.resources.gpus > 0

    @property
    def pauses_trials(self) -> bool:
        return self.scheduler != NO_SCHEDULER and self.stopping == "pause"

    @property
    def parsed_objectives(self) -> tuple[Objective, ...]:
        return parse_objectives(self.objectives)

    @property
    def parsed_constraints(self) -> tuple[Constraint, ...]:
        """The thresholds that the user stated."""
        return tuple(map(parse_constraint, self.constraints))

    @property
    def searched_constraints(self) -> tuple[Constraint, ...]:
        """The thresholds on metrics that trials measure. Other metrics are measured after the search."""
        measured = metrics_in(self.base.metrics)
        return tuple(
            item
            for item in self.parsed_constraints
            if item.name in measured or item.name not in METRICS or not METRICS[item.name].is_on_stored_models
        )

    @property
    def max_measured_epochs(self) -> int:
        """The maximum number of frontier epochs for which all metrics are measured at the end of the sweep."""
        return _MEASURED_EPOCHS if self.front_metrics is None else self.front_metrics

    @property
    def max_attacked_models(self) -> int:
        return _ATTACKED_MODELS if self.front_metrics is None else self.front_metrics

    @property
    def attack_names(self) -> tuple[str, ...]:
        """The names of the attacks on stored models."""
        return parse_attacks(self.attacks)

    @property
    def sets_after_search(self) -> tuple[str, ...]:
        """The names of the metric sets that are measured on stored models: those of attacks, and others."""
        return (*self.attack_names, *self.after_search)

    @property
    def every_epoch(self) -> bool:
        """Whether every evaluated epoch can be on the frontier, not only the last epochs of trials."""
        return self.candidates == ALL

    @property
    def params(self) -> dict[str, object]:
        """The sweep's parameters in MLflow: the values that all trials share, and texts with the searched values."""
        values = {name: value for name, value in self.base.row().items() if name in FIELDS}
        seeds = ", ".join(map(str, self.all_seeds))
        seed_names = [name for name in ("seed", SEEDS_VARY[self.seeds_vary]) if name is not None]
        seed_values = dict.fromkeys(seed_names, seeds) if self.seeds > 1 else {}
        searched_values = self.space.format_values(grid=self.sampler == "grid")
        return {**values, **dict(self.base.options), **seed_values, **searched_values}

    @property
    def methods(self) -> tuple[str, ...]:
        method_choices = [item for item in self.space.parameters if item.name == "method" and isinstance(item, Choice)]
        names = [str(value) for item in method_choices for value in item.values]
        constant = str(self.space.constants.get("method", self.base.method))
        return tuple(dict.fromkeys(names)) or (constant,)

    @property
    def problems(self) -> list[str]:
        """The problems with stored values of trial fields, which another version may have accepted."""
        choices = [item for item in self.space.parameters if isinstance(item, Choice)]
        choice_values = [(item.name, value) for item in choices for value in item.values]
        values = [*self.base.values().items(), *self.space.constants.items(), *choice_values]
        problems = [FIELDS[name].problem(value) for name, value in values if name in FIELDS]
        return [problem for problem in problems if problem is not None]

    @property
    def all_seeds(self) -> tuple[int, ...]:
        """The seeds with which each configuration runs."""
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def fresh_seeds(self) -> tuple[int, ...]:
        """The seeds of confirm trials, which follow the seeds of the search."""
        first = self.seed + self.seeds
        runs = AUTOMATIC_RUNS if self.confirm is None else 0 if self.confirm == NO_FRESH_RUNS else int(self.confirm)
        return tuple(range(first, first + runs))

    @property
    def confirmed_model(self) -> tuple[str, float | None] | None:
        """The trial id and the epoch of the model to confirm; None for the recommended model and its runners-up."""
        return (self.confirm_trial, self.confirm_epoch) if self.confirm_trial else None

    @property
    def target_seeds(self) -> tuple[int, ...]:
        """The seeds for which a target is prepared; only the first seed if all trials have the same target."""
        return (*self.all_seeds, *self.fresh_seeds) if SEEDS_VARY[self.seeds_vary] else self.all_seeds[:1]

    def base_spec(self, seed: int) -> TrialSpec:
        """Return the values that all trials with this seed share."""
        varied_seed = SEEDS_VARY[self.seeds_vary]
        changes: dict[str, Any] = {} if varied_seed is None else {varied_seed: seed}
        return replace(self.base, **changes)

    def measured_spec(self, seed: int) -> TrialSpec:
        """Return :meth:`base_spec` with all metrics that are measured on stored models, and also on the target."""
        return with_metrics(self.attacked_spec(seed), self.after_search)

    def attacked_spec(self, seed: int) -> TrialSpec:
        """Return :meth:`base_spec` with the metrics of the attacks."""
        return attacked_spec(self.base_spec(seed), self.attacks)

    def ray_storage(self, out: Path) -> Path:
        """Return the absolute path of Ray Tune's folder."""
        if self.storage is None:
            return out.resolve() / RUN_STATES
        digest = hashlib.sha256(str(out.resolve()).encode()).hexdigest()[:8]
        return Path(self.storage).resolve() / f"{out.resolve().name}-{digest}"

    @property
    def bucket(self) -> Storage | None:
        """The sweep's folder in the bucket, or None if there is no bucket."""
        if self.storage is None or not is_address(self.storage):
            return None
        return Storage(self.storage).subfolder(self.stored_as)

    def shared_folders(self, *folders: Path) -> tuple[Path, ...]:
        """Return the folders that all nodes must share: the given folders, or () if workers use a bucket."""
        return () if self.bucket is not None else folders

    def make_spec(self, config: Mapping[str, Any], *, target_key: str) -> TrialSpec:
        """Return the spec of a trial with the proposed values ``config``. Options of other methods are left out."""
        searched_options = {name: config[name] for name in option_names() if name in config}
        values = {name: value for name, value in config.items() if name not in searched_options}
        method = parse_method(str(values.get("method", self.base.method)))
        option_values = dict(self.base.options) | searched_options
        options = method.resolve({name: float(value) for name, value in option_values.items()})
        base = self.base_spec(int(values.get("seed", self.seed)))
        return replace(base, **values, options=tuple(sorted(options.items())), target_key=target_key)

    def to_dict(self) -> dict[str, object]:
        """Return the settings as a mapping for JSON, without passwords."""
        values = asdict(self)
        values["ship"] = not values.pop("no_ship")
        return values | {
            "base": self.base.to_dict(),
            "space": self.space.to_dict(),
            "tracking_uri": redact_uri(self.tracking_uri),
            "given": to_json(self.given),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SweepSettings:
        """Return the settings from the result of :meth:`to_dict`.

        Raises:
            KeyError, TypeError, ValueError: the result is damaged, or is from another version.
        """
        settings = dict(values)
        settings["space"] = Space.from_dict(settings["space"])
        settings["base"] = TrialSpec.from_dict(settings["base"])
        settings["no_ship"] = not settings.pop("ship")
        for name in ("extension", "constraints", "enqueue", "warm_start", "reuse", "after_search"):
            settings[name] = tuple(settings.get(name, ()))
        settings["given"] = from_json(settings["given"])
        return cls(**settings)


def attacked_spec(spec: TrialSpec, attacks: str) -> TrialSpec:
    """Return the spec with the metrics of attacks, in the format of ``--attacks``, beside its own metrics."""
    return with_metrics(spec, metric_sets(attacks))


def with_metrics(spec: TrialSpec, names: Sequence[str]) -> TrialSpec:
    """Return the spec with further metrics beside its own."""
    return replace(spec, metrics=tuple(dict.fromkeys([*(spec.metrics or ("default",)), *names]))) if names else spec


CHANGEABLE = tuple(
    item.name
    for item in fields(ResumeOptions)
    if item.metadata and item.name in {own.name for own in fields(SweepSettings)}
)
"""The settings that ``resume`` can change."""
