"""What a trial is asked to do, each setting described once, and the hash that names its content.

``--help`` reads this module; what takes long to import is imported where a trial is looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
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
    """A field of :class:`TrialSpec`, described as :class:`search_spaces.fields.Field` says."""
    found: T = field(default=default, metadata={"role": role, "help": help, "otherwise": otherwise, **described})
    return found


def _datasets() -> Collection[str]:
    from trainables.data import DATASETS

    return DATASETS


def _templates() -> Collection[str]:
    from trainables.templates import TEMPLATES

    return TEMPLATES


def _rules() -> Collection[str]:
    from trainables.auto_lr.rules import RULES

    return RULES


def _probes() -> Collection[str]:
    from trainables.auto_lr.rules import PROBES

    return PROBES


def _retain_objectives() -> Collection[str]:
    from trainables.objectives import RETAIN_OBJECTIVES

    return RETAIN_OBJECTIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """One trial. ``lr`` is the fixed learning rate, or AutoLR's starting point with ``auto_lr="on"``.

    ``target_epochs``, ``target_lr``, ``target_batch_size`` and ``target_lora_rank`` (0: all weights) replace what the
    model's own fine-tuning recipe says; ``target_seed`` and ``data_seed`` make another target, and other data.
    ``template`` is how questions are put, None as the model's registry says; its content is part of ``target_key``.
    ``lora_rank`` None trains all weights.
    ``d_growth`` caps the factor by which a learning-rate-free optimizer's distance grows a step; None is 1.2.
    ``retain_objective`` is what is minimised on the retain set, ``ce`` (L_R) or ``kl`` (to the target); AutoLR's probes
    and the evaluation's ``retain_loss`` are L_R under either.
    ``options`` are those chosen of the method's own (``c``, ``beta``, ...), as sorted pairs; see ``option_values``.
    ``metrics`` are names of metrics or of sets of them, measured at the end and every ``metrics_every`` epochs; empty
    is the default set. ``retain_path`` is the folder of a model trained without the forget set.
    ``target_key`` is the content hash of the target model and its data (and of the retain model, where a metric needs
    one), empty until the target is known.

    A field declared here is an option of the command line (in this order), checked, known to space files, and a column.
    """

    method: str = setting("method", "gdiff", "Method by name (see 'list methods').")
    options: tuple[tuple[str, float], ...] = ()
    model: str = setting("data", "tiny-phi", "Model by name, or its hub id ORG/NAME.")
    model_path: str | None = setting("placement", None, "Folder of a causal LM to fine-tune the target from.")
    target_path: str | None = setting("placement", None, "Folder of a causal LM that already is the target.")
    dataset: str = setting(
        "data", "authors", "Data set by name (see 'list datasets').", "the model's", choices=_datasets
    )
    data_dir: str | None = setting("placement", None, "Folder with the data set's files, instead of the hub.")
    forget_split: str | None = setting(
        "data", None, "What to forget of the data set (see 'list datasets').", "TOFU forget10, MUSE forget"
    )
    forget_class: str | None = setting(
        "data", None, "Images: class to forget, by name or number.", "dog, bed, or digit 3"
    )
    template: str | None = setting(
        "data",
        None,
        "How questions are put: a name (see 'list templates'), chat for the tokenizer's chat template, or a FILE.",
        "Question: ...\\nAnswer: ...",
        choices=_templates,
        decides=False,
    )
    limit: int | None = setting(
        "data", None, "Keep at most this many retain examples (authors, tofu: whole authors).", low=1
    )
    target_epochs: int | None = setting(
        "data", None, "Epochs of the target's fine-tuning.", "the model's", low=1, decides=False
    )
    target_lr: float | None = setting(
        "data", None, "Learning rate of the target's fine-tuning.", above=0.0, decides=False
    )
    target_batch_size: int | None = setting(
        "data", None, "Batch size of the target's fine-tuning.", low=1, decides=False
    )
    target_lora_rank: int | None = setting(
        "data",
        None,
        "Fine-tune the target through LoRA, merged afterwards; 0 or none trains all weights.",
        low=0,
        words=_RANK,
        decides=False,
    )
    target_seed: int = setting(
        "data", 0, "Seed of the target's weights and fine-tuning.", low=0, high=2**32 - 1, decides=False
    )
    data_seed: int = setting("data", 0, "Seed of generated data (authors).", low=0, high=2**32 - 1, decides=False)
    lr: float = setting(
        "training", 1e-4, "Learning rate, or where AutoLR starts.", "the model's", label="learning rate", above=0.0
    )
    auto_lr: str = setting("auto_lr", "off", "on or off.", choices=("on", "off"))
    seed: int = setting(
        "training",
        0,
        "Order of batches, random weights.",
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
        "Examples a forward pass takes: less memory, the same step.",
        "the batch",
        low=1,
        decides=False,
    )
    eval_batch_size: int = setting("scoring", 32, "Sequences per evaluation batch.", "the model's", low=1)
    max_length: int = setting(
        "data", 512, "Cut sequences after this many tokens.", "512; MUSE 2048", low=8, unit="tokens"
    )
    optimizer: str = setting("training", "adamw", "By name (see 'list optimizers').", choices=OPTIMIZERS)
    d_growth: float | None = setting(
        "training",
        None,
        "Learning-rate-free: growth cap.",
        "1.2",
        flag="--growth-rate",
        low=1.0,
        when={"optimizer": LR_FREE},
    )
    weight_decay: float = setting("training", 0.0, "Decoupled for adamw.", low=0.0)
    momentum: float = setting("training", 0.0, "For sgd.", low=0.0, high=1.0, when={"optimizer": ("sgd",)})
    max_grad_norm: float | None = setting("training", None, "Clip the combined gradient.", "off", above=0.0)
    weight_scale: str = setting(
        "method", "raw", "Weights raw as published, or unit, summing to 1.", choices=("raw", "unit")
    )
    retain_objective: str = setting(
        "method", "ce", "ce, or kl: KL to the target model, on the retain set.", choices=_retain_objectives
    )
    lora_rank: int | None = setting(
        "training",
        None,
        "Train a LoRA adapter of this rank; 0 or none trains all weights.",
        "the model's",
        low=1,
        words=_RANK,
    )
    dtype: str = setting("training", "fp32", "fp32, or bf16 autocast over fp32 weights.", choices=("fp32", "bf16"))
    gradient_checkpointing: bool = setting("training", False, "Trade time for memory.")
    interpolate: str = setting(
        "training",
        "auto",
        "Go back towards the target's weights at the end, as far as what is forgotten stays so: on, off, auto.",
        "on under AutoLR's rule safe",
        choices=("auto", "on", "off"),
    )
    auto_lr_smoothing: str = setting("auto_lr", "safe", "safe, search, trust, paper, clip or official.", choices=_rules)
    auto_lr_probe: str = setting("auto_lr", "fresh", "same or fresh retain batch.", choices=_probes)
    auto_lr_every: int = setting("auto_lr", 10, "Steps between AutoLR updates.", low=1)
    auto_lr_start: int = setting("auto_lr", 1, "First step AutoLR updates at.", low=1)
    auto_lr_probe_batches: int = setting(
        "auto_lr",
        2,
        "Fresh retain batches AutoLR probes on.",
        "2, or as many as have 8 rows",
        low=1,
        when={**_AUTO, "auto_lr_probe": ("fresh",)},
    )
    auto_lr_log_forget: bool = setting(
        "auto_lr", True, "Log the forget loss at AutoLR's probes, too.", "yes", decides=False
    )
    loss_examples: int = setting(
        "data", 64, "Retain examples that every epoch's retain loss is measured on.", low=1, decides=False
    )
    eval_every: int = setting(
        "scoring", 1, "Epochs between evaluations of the losses; the last epoch is evaluated in any case.", low=1
    )
    metrics: tuple[str, ...] = setting(
        "scoring", (), "NAME,... or all, tofu, muse, mia, ... (see 'list metrics').", "default"
    )
    metrics_every: int | None = setting(
        "scoring", None, "Measure them every so many epochs, too.", "at the end", low=1, fixed=""
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
        """The (objective, weighting) pair the method names."""
        from trainables.methods import parse_method

        return parse_method(self.method)

    @property
    def option_values(self) -> dict[str, float]:
        """The method's options as a mapping, defaults filled in."""
        return self.parsed_method.resolve(dict(self.options))

    @property
    def can_restart(self) -> bool:
        """Whether AutoLR's rule restarts from the target when a loss or gradient is not finite."""
        from trainables.auto_lr.rules import RULES

        return self.auto_lr == "on" and RULES[self.auto_lr_smoothing].guard is not None

    @property
    def is_interpolated(self) -> bool:
        """Whether the last weights are interpolated towards the target's."""
        return self.can_restart if self.interpolate == "auto" else self.interpolate == "on"

    @property
    def needs_frozen_target(self) -> bool:
        """Whether a step runs the frozen target beside the model."""
        return self.retain_objective == "kl" or self.parsed_method.objective.reference.is_frozen_forward

    @property
    def spec_hash(self) -> str:
        """16 hex digits naming the content: whatever may change the result changes them; 1 and 1.0 do not differ.

        A field without effect, such as a rule of AutoLR's where AutoLR is off, does not change them.
        """
        import hashlib
        import json

        values = self.values()
        content = {
            name: item.typed(values[name]) for name, item in FIELDS.items() if item.decides and item.has_effect(values)
        }
        # What it amounts to, and nothing where it changes nothing.
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
        """The digests of the plug-ins whose parts the trial is made of; empty where all are the project's own."""
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
        """Every described field by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def row(self) -> dict[str, object]:
        """Every field as columns of a table of trials; one column per method option, None where it does not apply."""
        from trainables.methods import option_names

        given = self.option_values
        joined = {name: ",".join(getattr(self, name)) or None for name, item in FIELDS.items() if item.many}
        return self.values() | joined | {name: given.get(name) for name in option_names()}

    def to_dict(self) -> dict[str, object]:
        """A JSON-able mapping, read back by :meth:`from_dict`."""
        return self.values() | {"options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> TrialSpec:
        """The spec :meth:`to_dict` made."""
        given: dict[str, Any] = dict(values)
        lists = {name: tuple(given[name]) for name, item in FIELDS.items() if item.many}
        return cls(**given | lists | {"options": tuple(sorted(given["options"].items()))})


def _described() -> dict[str, Field]:
    """The description of every field, completed by what its type and its role say."""
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
"""Every field by name, ``options`` apart, which hold those of the method: :func:`trainables.methods.option_names`."""
