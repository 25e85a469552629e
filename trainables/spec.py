"""The specification of a trial: each setting described once, and the hash of its content.

``--help`` reads this module, so slow imports happen inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from search_spaces.fields import Field, Role
from trainables.optimizers import LR_FREE, OPTIMIZERS

if TYPE_CHECKING:
    from trainables.methods import Method


_AUTO = MappingProxyType({"auto_lr": ("on",)})
_SHARED = "all its trials share one target and its data"
_RANK = MappingProxyType({"none": 0})

T = TypeVar("T")


def setting(role: Role, default: T, help: str = "", otherwise: str = "", **described: Any) -> T:
    """Return a field of :class:`TrialSpec` with a description for :class:`search_spaces.fields.Field`."""
    found: T = field(default=default, metadata={"role": role, "help": help, "otherwise": otherwise, **described})
    return found


def _names(module: str, registry: str) -> Callable[[], Collection[str]]:
    """Return a function that imports a registry, whose names are the choices of a setting."""
    return lambda: getattr(import_module(f"trainables.{module}"), registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One trial; the help of each field describes it.

    Attributes:
        options: the method's own options (``c``, ``beta``, ...) as sorted pairs, see ``option_values``.
        target_epochs, target_lr, target_batch_size, target_lora_rank: replace the model's own fine-tuning recipe (rank
            0 trains all weights).
        template: None is the model's own template. Its content is part of ``target_key``.
        retain_objective: ``ce`` (L_R) or ``kl`` (to the target). AutoLR's probes and the evaluation's ``retain_loss``
            are always L_R.
        target_key: content hash of the target and its data (and of the retain model, if a metric needs it); empty until
            the target is prepared.

    A field declared here is an option of the command line (in this order), is checked, can be used in space files, and
    is a column.
    """

    method: str = setting("method", "gdiff", "Method by name (see 'list methods').")
    options: tuple[tuple[str, float], ...] = ()
    model: str = setting("data", "tiny-phi", "Model by name, or its hub id ORG/NAME.")
    model_path: str | None = setting("placement", None, "Folder of a causal LM to fine-tune the target from.")
    target_path: str | None = setting("placement", None, "Folder of a causal LM that already is the target.")
    dataset: str = setting(
        "data", "authors", "Data set by name (see 'list datasets').", "the model's", choices=_names("data", "DATASETS")
    )
    data_dir: str | None = setting("placement", None, "Folder with the data set's files, instead of the hub.")
    forget_split: str | None = setting(
        "data", None, "Split to forget (see 'list datasets').", "TOFU forget10, MUSE forget"
    )
    forget_class: str | None = setting(
        "data", None, "Class of images to forget, by name or number.", "dog, bed, or digit 3"
    )
    template: str | None = setting(
        "data",
        None,
        "Prompt template: a name (see 'list templates'), chat for the tokenizer's chat template, or a FILE.",
        "Question: ...\\nAnswer: ...",
        choices=_names("templates", "TEMPLATES"),
        decides=False,
    )
    limit: int | None = setting(
        "data", None, "Maximum number of retain examples (for authors and tofu: of whole authors).", low=1
    )
    target_epochs: int | None = setting(
        "data", None, "Epochs of the target's fine-tuning.", "the model's", low=1, decides=False
    )
    target_lr: float | None = setting(
        "data", None, "Learning rate of the target's fine-tuning.", "the model's", above=0.0, decides=False
    )
    target_batch_size: int | None = setting(
        "data", None, "Batch size of the target's fine-tuning.", "the model's", low=1, decides=False
    )
    target_lora_rank: int | None = setting(
        "data",
        None,
        "LoRA rank of the target's fine-tuning, merged afterwards; 0 or none trains all weights.",
        low=0,
        words=_RANK,
        decides=False,
    )
    target_seed: int = setting(
        "data", 0, "Seed of the target's initial weights and fine-tuning.", low=0, high=2**32 - 1, decides=False
    )
    data_seed: int = setting("data", 0, "Seed of generated data (authors).", low=0, high=2**32 - 1, decides=False)
    lr: float = setting(
        "training",
        1e-4,
        "Learning rate, or AutoLR's first learning rate.",
        "the model's",
        label="learning rate",
        above=0.0,
    )
    auto_lr: str = setting("auto_lr", "off", "Automatic learning rate (AutoLR): on or off.", choices=("on", "off"))
    seed: int = setting(
        "training",
        0,
        "Seed of the order of batches and of random weights.",
        low=0,
        high=2**32 - 1,
        fixed="--seeds says how many there are",
    )
    epochs: int = setting("training", 15, "Passes over the forget set.", low=1)
    max_steps: int | None = setting("training", None, "Stop after this many optimizer steps.", low=1)
    batch_size: int = setting("training", 8, "Forget and retain examples per step.", "the model's", low=1)
    micro_batch: int | None = setting(
        "training",
        None,
        "Examples per forward pass; fewer need less memory and give the same step.",
        "the batch",
        low=1,
        decides=False,
    )
    eval_batch_size: int = setting("scoring", 32, "Sequences per evaluation batch.", "the model's", low=1)
    max_length: int = setting(
        "data", 512, "Cut sequences after this many tokens.", "512; MUSE 2048", low=8, unit="tokens"
    )
    optimizer: str = setting("training", "adamw", "Optimizer by name (see 'list optimizers').", choices=OPTIMIZERS)
    d_growth: float | None = setting(
        "training",
        None,
        "For learning-rate-free optimizers: maximum growth of the distance per step.",
        "1.2",
        flag="--growth-rate",
        low=1.0,
        when={"optimizer": LR_FREE},
    )
    weight_decay: float = setting("training", 0.0, "Weight decay (decoupled for adamw).", low=0.0)
    momentum: float = setting("training", 0.0, "Momentum of sgd.", low=0.0, high=1.0, when={"optimizer": ("sgd",)})
    max_grad_norm: float | None = setting(
        "training", None, "Clip the norm of the combined gradient to this.", "off", above=0.0
    )
    weight_scale: str = setting(
        "method",
        "raw",
        "Weights of the two losses: raw, as published, or unit, scaled to sum to 1.",
        choices=("raw", "unit"),
    )
    retain_objective: str = setting(
        "method",
        "ce",
        "Loss on the retain set: ce, or kl (KL divergence from the target model).",
        choices=_names("objectives", "RETAIN_OBJECTIVES"),
    )
    lora_rank: int | None = setting(
        "training",
        None,
        "Rank of the LoRA adapter to train; 0 or none trains all weights.",
        "the model's",
        low=1,
        words=_RANK,
    )
    dtype: str = setting(
        "training", "fp32", "Precision: fp32, or bf16 autocast over fp32 weights.", choices=("fp32", "bf16")
    )
    gradient_checkpointing: bool = setting("training", False, "Recompute activations: less memory, more time.")
    interpolate: str = setting(
        "training",
        "auto",
        "Interpolate the final weights towards the target's while forgetting is kept: on, off, auto.",
        "on under AutoLR's rule safe",
        choices=("auto", "on", "off"),
    )
    auto_lr_smoothing: str = setting(
        "auto_lr",
        "safe",
        "AutoLR's rule: safe, search, trust, paper, clip or official.",
        choices=_names("auto_lr.rules", "RULES"),
    )
    auto_lr_probe: str = setting(
        "auto_lr",
        "fresh",
        "Retain batch that AutoLR probes: same (as the step's) or fresh.",
        choices=_names("auto_lr.rules", "PROBES"),
    )
    auto_lr_every: int = setting("auto_lr", 10, "Steps between AutoLR updates.", low=1)
    auto_lr_start: int = setting("auto_lr", 1, "First step at which AutoLR updates.", low=1)
    auto_lr_probe_batches: int = setting(
        "auto_lr",
        2,
        "Number of fresh retain batches that AutoLR probes.",
        "2, or as many as have 8 rows",
        low=1,
        when={**_AUTO, "auto_lr_probe": ("fresh",)},
    )
    auto_lr_log_forget: bool = setting(
        "auto_lr", True, "Also log the forget loss at AutoLR's probes.", "yes", decides=False
    )
    loss_examples: int = setting(
        "data", 64, "Number of retain examples for every epoch's retain loss.", low=1, decides=False
    )
    eval_every: int = setting(
        "scoring", 1, "Epochs between evaluations of the losses; the last epoch is always evaluated.", low=1
    )
    metrics: tuple[str, ...] = setting(
        "scoring", (), "Metrics: NAME,... or sets: all, tofu, muse, mia, ... (see 'list metrics').", "default"
    )
    metrics_every: int | None = setting(
        "scoring", None, "Also measure the metrics after every this many epochs.", "at the end", low=1, fixed=""
    )
    retain_path: str | None = setting(
        "placement",
        None,
        "Folder of a model trained without the forget set, for metrics that need one.",
        "trained",
        flag="--retain-model",
    )
    target_key: str = setting("data", "")

    @property
    def parsed_method(self) -> Method:
        """The (objective, weighting) pair of the method's name."""
        from trainables.methods import parse_method

        return parse_method(self.method)

    @property
    def option_values(self) -> dict[str, float]:
        """The method's options by name, with defaults."""
        return self.parsed_method.resolve(dict(self.options))

    @property
    def can_restart(self) -> bool:
        """Whether AutoLR's rule restarts from the target when a loss or gradient is not finite."""
        from trainables.auto_lr.rules import RULES

        return self.auto_lr == "on" and RULES[self.auto_lr_smoothing].guard is not None

    @property
    def is_interpolated(self) -> bool:
        """Whether the final weights are interpolated towards the target's."""
        return self.can_restart if self.interpolate == "auto" else self.interpolate == "on"

    @property
    def needs_frozen_target(self) -> bool:
        """Whether a step also runs the frozen target."""
        return self.retain_objective == "kl" or self.parsed_method.objective.reference.is_frozen_forward

    @property
    def spec_hash(self) -> str:
        """16 hex digits of everything that may change the result; 1 and 1.0 do not differ.

        A field without effect, such as AutoLR's rule with AutoLR off, is not part of it.
        """
        import hashlib
        import json

        values = self.values()
        content = {
            name: item.typed(values[name]) for name, item in FIELDS.items() if item.decides and item.has_effect(values)
        }
        # Hash the effective value, and only if it has an effect.
        del content["interpolate"]
        if self.is_interpolated or self.can_restart:
            content["interpolate"] = self.is_interpolated
        content["method"] = self.parsed_method.name
        content["options"] = sorted((name, float(value)) for name, value in self.option_values.items())
        if own := self.plugins:
            content["plugins"] = own
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def plugins(self) -> list[str]:
        """The digests of the plug-ins whose parts the trial uses."""
        from trainables import plugins

        if not plugins.active():
            return []
        from trainables.metrics.registry import SETS

        method = self.parsed_method
        metrics = (name for chosen in self.metrics or ("default",) for name in SETS.get(chosen, (chosen,)))
        return plugins.digests(
            [
                ("weighting", method.weighting.name),
                ("objective", method.objective.name),
                *(("metric", name.removesuffix("_distance")) for name in metrics),
                ("data set", self.dataset),
                ("model", self.model),
                ("template", self.template),
            ]
        )

    def values(self) -> dict[str, object]:
        """Return every described field by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def row(self) -> dict[str, object]:
        """Return every field as columns of a table of trials; one column per method option, None if it does not apply.
        Return every field as columns of a table of trials; one column per method option, None if it does not apply."""
        from trainables.methods import option_names

        given = self.option_values
        joined = {name: ",".join(getattr(self, name)) or None for name, item in FIELDS.items() if item.many}
        return self.values() | joined | {name: given.get(name) for name in option_names()}

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-able mapping for :meth:`from_dict`."""
        return self.values() | {"options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> TrialSpec:
        """Return the spec of a mapping from :meth:`to_dict`."""
        given: dict[str, Any] = dict(values)
        lists = {name: tuple(given[name]) for name, item in FIELDS.items() if item.many}
        return cls(**given | lists | {"options": tuple(sorted(given["options"].items()))})


def _described() -> dict[str, Field]:
    """Return the description of every field, completed by its type and its role."""
    hints = get_type_hints(TrialSpec)
    found = {}
    for item in fields(TrialSpec):
        if not item.metadata:
            continue
        kinds = get_args(hints[item.name]) or (hints[item.name],)
        role = item.metadata["role"]
        derived = {
            "kind": kinds[0],
            "many": Ellipsis in kinds,
            "optional": NoneType in kinds,
            "label": item.name.replace("auto_lr", "AutoLR").replace("_", " "),
            "when": _AUTO if role == "auto_lr" and item.name != "auto_lr" else {},
            "flag": f"--{item.name.replace('_', '-')}" if item.metadata["help"] else "",
            "decides": role != "placement",
            "fixed": _SHARED if role in ("data", "placement", "scoring") else "",
        }
        found[item.name] = Field(name=item.name, default=item.default, **{**derived, **item.metadata})
    return found


FIELDS: Mapping[str, Field] = MappingProxyType(_described())
"""Every field by name, except ``options``, which are the method's: :func:`trainables.methods.option_names`."""
