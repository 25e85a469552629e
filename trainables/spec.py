"""Everything that decides a trial's result, and the hash that names it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from trainables.data import DATASETS
from trainables.methods import (
    Method,
    MethodError,
    option_names,
    parse_method,
    retain_objective_problem,
    weight_scale_problem,
)
from trainables.metrics.registry import unknown_names
from trainables.modality import dataset_modality
from trainables.models.registry import MODELS
from trainables.objectives import RETAIN_OBJECTIVES
from trainables.run.optimizers import LR_FREE, OPTIMIZERS

AUTO_LR_SMOOTHINGS = ("paper", "clip", "official", "search", "trust")
AUTO_LR_PROBES = ("same", "fresh")
WEIGHT_SCALES = ("raw", "unit")
DTYPES = ("fp32", "bf16")

_NOT_HASHED = (
    *("model_path", "target_path", "retain_path", "data_dir", "target_epochs", "target_lr", "target_batch_size"),
    "target_lora_rank",
    "auto_lr_log_forget",
)
"""Where things lie on this machine; how the target was made (``target_key`` hashes what came of it); what is logged."""

_HASHED_UNLESS_DEFAULT = ("d_growth", "retain_objective", "forget_class", "metrics", "metrics_every")
"""Fields younger than the first sweeps: at their default they leave the hash as it was."""

_REAL = ("lr", "weight_decay", "momentum", "max_grad_norm", "d_growth")
"""Fields that a whole number may stand in for: a file says ``lr: 1`` where a search says 1.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One trial. ``lr`` is the fixed learning rate, or AutoLR's starting point with ``auto_lr="on"``.

    ``target_epochs``, ``target_lr``, ``target_batch_size`` and ``target_lora_rank`` (0: all weights) replace what the
    model's own fine-tuning recipe says. ``lora_rank`` None trains all weights.
    ``d_growth`` caps the factor by which a learning-rate-free optimizer's distance grows a step; None is 1.2.
    ``retain_objective`` is what is minimised on the retain set, ``ce`` (L_R) or ``kl`` (to the target); AutoLR's probes
    and the evaluation's ``retain_loss`` are L_R under either.
    ``options`` are those chosen of the method's own (``c``, ``beta``, ...), as sorted pairs; see ``option_values``.
    ``metrics`` are names of metrics or of sets of them, measured at the end and every ``metrics_every`` epochs; empty
    is the default set. ``retain_path`` is the folder of a model trained without the forget set.
    ``target_key`` is the content hash of the target model and its data (and of the retain model, where a metric needs
    one), empty until the target is known.
    """

    model: str = "tiny-phi"
    model_path: str | None = None
    target_path: str | None = None
    dataset: str = "authors"
    data_dir: str | None = None
    forget_split: str | None = None
    forget_class: str | None = None
    limit: int | None = None
    target_epochs: int | None = None
    target_lr: float | None = None
    target_batch_size: int | None = None
    target_lora_rank: int | None = None
    method: str = "gdiff"
    options: tuple[tuple[str, float], ...] = ()
    weight_scale: str = "raw"
    retain_objective: str = "ce"
    lr: float = 1e-4
    auto_lr: str = "off"
    auto_lr_smoothing: str = "search"
    auto_lr_probe: str = "fresh"
    auto_lr_every: int = 10
    auto_lr_start: int = 1
    auto_lr_probe_batches: int = 4
    auto_lr_log_forget: bool = True
    optimizer: str = "adamw"
    weight_decay: float = 0.0
    momentum: float = 0.0
    d_growth: float | None = None
    max_grad_norm: float | None = None
    epochs: int = 15
    max_steps: int | None = None
    batch_size: int = 8
    eval_batch_size: int = 32
    max_length: int = 512
    lora_rank: int | None = None
    dtype: str = "fp32"
    gradient_checkpointing: bool = False
    seed: int = 0
    metrics: tuple[str, ...] = ()
    metrics_every: int | None = None
    retain_path: str | None = None
    target_key: str = ""

    @property
    def parsed_method(self) -> Method:
        """The (objective, weighting) pair the method names."""
        return parse_method(self.method)

    @property
    def option_values(self) -> dict[str, float]:
        """The method's options as a mapping, defaults filled in."""
        return self.parsed_method.resolve(dict(self.options))

    @property
    def needs_frozen_target(self) -> bool:
        """Whether a step runs the frozen target beside the model."""
        return self.retain_objective == "kl" or self.parsed_method.objective.reference.is_frozen_forward

    @property
    def may_have_retain_model(self) -> bool:
        """Whether a retain model is given or can be trained: beside a finished target, whose base nobody knows, not."""
        return self.retain_path is not None or self.target_path is None

    @property
    def spec_hash(self) -> str:
        """16 hex digits naming the content: whatever may change the result changes them; 1 and 1.0 do not differ."""
        content = {key: value for key, value in asdict(self).items() if key not in _NOT_HASHED}
        defaults = {field.name: field.default for field in fields(self)}
        for name in _HASHED_UNLESS_DEFAULT:
            if content[name] == defaults[name]:
                del content[name]
        content |= {key: float(content[key]) for key in _REAL if content.get(key) is not None}
        content["method"] = self.parsed_method.name
        content["options"] = sorted((name, float(value)) for name, value in self.option_values.items())
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    def row(self) -> dict[str, object]:
        """Every field as columns of a table of trials; one column per method option, None where it does not apply."""
        values = asdict(self)
        given = self.option_values
        del values["options"]
        values["metrics"] = ",".join(self.metrics) or None
        return values | {name: given.get(name) for name in option_names()}

    def to_dict(self) -> dict[str, object]:
        """A JSON-able mapping, read back by :meth:`from_dict`."""
        return asdict(self) | {"options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> TrialSpec:
        """The spec :meth:`to_dict` made."""
        given = dict(values)
        given["options"] = tuple(sorted(dict(given.get("options") or {}).items()))  # type: ignore[call-overload]
        given["metrics"] = tuple(given.get("metrics") or ())  # type: ignore[arg-type]
        return cls(**given)  # type: ignore[arg-type]

    def problems(self) -> list[str]:
        """Everything wrong with this spec, in plain sentences; empty when it can run."""
        found = unknown_names(self.metrics) + _choice_problems(self) + _modality_problems(self) + _number_problems(self)
        try:
            method = self.parsed_method
        except MethodError as error:
            return [str(error), *found]
        if (problem := weight_scale_problem(method, self.weight_scale)) is not None:
            found.append(problem)
        if self.retain_objective in RETAIN_OBJECTIVES and (
            problem := retain_objective_problem(method, self.retain_objective)
        ):
            found.append(problem)
        if problem := modality_problem(method, self.dataset):
            found.append(problem)
        for name, value in self.options:
            option = method.options.get(name)
            if option is None:
                applies = ", ".join(method.options) or "none"
                found.append(f"option {name} does not apply to method '{self.method}' (its options: {applies})")
            elif problem := option.problem(value):
                found.append(problem)
        return found


def modality_problem(method: Method, dataset: str) -> str | None:
    """Why a method cannot unlearn the models of a data set; None where it can."""
    modality = dataset_modality(dataset)
    lacking = modality.lacks.get(method.objective.reference)
    if lacking is None:
        return None
    return f"method '{method.name}' does not apply to data set {dataset}: {modality.models} have no {lacking}"


def _choice_problems(spec: TrialSpec) -> list[str]:
    choices = {
        "dataset": tuple(DATASETS),
        "optimizer": OPTIMIZERS,
        "auto_lr": ("on", "off"),
        "auto_lr_smoothing": AUTO_LR_SMOOTHINGS,
        "auto_lr_probe": AUTO_LR_PROBES,
        "weight_scale": WEIGHT_SCALES,
        "retain_objective": tuple(RETAIN_OBJECTIVES),
        "dtype": DTYPES,
    }
    found = [
        f"unknown {name} '{getattr(spec, name)}': expected one of {', '.join(allowed)}"
        for name, allowed in choices.items()
        if getattr(spec, name) not in allowed
    ]
    if spec.dataset in DATASETS:
        found += DATASETS[spec.dataset].choice_problems(spec.forget_split, spec.forget_class)
    return found


def _modality_problems(spec: TrialSpec) -> list[str]:
    """What does not go together: a model and data of another kind, and options only one kind of model has."""
    if spec.dataset not in DATASETS:
        return []
    found = []
    modality = dataset_modality(spec.dataset)
    expected = MODELS[spec.model].modality if spec.model in MODELS else None
    if expected not in (None, modality.name):
        fitting = ", ".join(name for name, item in DATASETS.items() if item.modality == expected)
        found.append(
            f"model {spec.model} and data set {spec.dataset} do not go together: a {expected} model takes one of "
            f"{fitting}"
        )
    for name, reason in modality.unused_fields.items():
        if (value := getattr(spec, name)) and value != _DEFAULTS[name]:
            found.append(f"{name} does not apply to {modality.models}, got {value}: {reason}")
    return found


def _number_problems(spec: TrialSpec) -> list[str]:
    found = []
    for name in ("lr", "target_lr"):
        value = getattr(spec, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            found.append(f"{name} must be a finite number greater than 0, got {value:g}")
    for name in ("weight_decay", "momentum"):
        if not (math.isfinite(getattr(spec, name)) and getattr(spec, name) >= 0):
            found.append(f"{name} must be a finite number, at least 0, got {getattr(spec, name):g}")
    if spec.momentum and spec.optimizer != "sgd":
        found.append(f"momentum applies to optimizer sgd only, got {spec.optimizer}")
    if spec.d_growth is not None and spec.optimizer not in LR_FREE:
        found.append(f"d_growth (--growth-rate) applies to {', '.join(LR_FREE)} only, got optimizer {spec.optimizer}")
    if spec.d_growth is not None and not (math.isfinite(spec.d_growth) and spec.d_growth >= 1):
        found.append(f"d_growth (--growth-rate) must be a finite number, at least 1, got {spec.d_growth:g}")
    if spec.auto_lr == "on" and spec.optimizer in LR_FREE:
        found.append(
            f"AutoLR does not go with optimizer {spec.optimizer}: it chooses its own step length, and its "
            "update is not linear in lr; use adamw or sgd, or --auto-lr off"
        )
    if spec.max_grad_norm is not None and not spec.max_grad_norm > 0:
        found.append(f"max_grad_norm must be greater than 0, got {spec.max_grad_norm:g}")
    steps = (
        "epochs",
        "max_steps",
        "batch_size",
        "eval_batch_size",
        "auto_lr_every",
        "auto_lr_start",
        "auto_lr_probe_batches",
        "target_epochs",
        "target_batch_size",
        "metrics_every",
    )
    for name in (*steps, "limit", "lora_rank"):
        value = getattr(spec, name)
        if value is not None and value < 1:
            found.append(f"{name} must be at least 1, got {value}")
    if spec.target_lora_rank is not None and spec.target_lora_rank < 0:
        found.append(f"target_lora_rank must be at least 0 (0 trains all weights), got {spec.target_lora_rank}")
    if not 0 <= spec.seed < 2**32:
        found.append(f"seed must be from 0 to {2**32 - 1}, got {spec.seed}")
    if spec.max_length < 8:
        found.append(f"max_length must be at least 8 tokens, got {spec.max_length}")
    return found


_DEFAULTS = {field.name: field.default for field in fields(TrialSpec)}
SPEC_FIELDS = tuple(field.name for field in fields(TrialSpec) if field.name != "options")
