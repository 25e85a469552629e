"""The specification of a trial: its settings, a description of each setting, and a hash of the settings.

``--help`` imports this module, so slow imports are inside functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from importlib import import_module
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from search_spaces.common.fields import Field, Role
from trainables.auto_lr.rules import PROBES, RULES, enough_probe_batches
from trainables.optimizers import LR_FREE, OPTIMIZERS

if TYPE_CHECKING:
    from trainables.methods import Method


_AUTO = MappingProxyType({"auto_lr": tuple(RULES)})
_SHARED = "all trials of a sweep share one target and the data of this target"
_RANK = MappingProxyType({"none": 0})
_SEED: Mapping[str, Any] = MappingProxyType({"low": 0, "high": 2**32 - 1})

T = TypeVar("T")


def setting(role: Role, default: T, help: str = "", otherwise: str = "", **attributes: Any) -> T:
    """Return a dataclass field for a :class:`TrialSpec`, with the arguments of :class:`.Field`."""
    spec_field: T = field(default=default, metadata={"role": role, "help": help, "otherwise": otherwise, **attributes})
    return spec_field


def _names(module: str, registry: str) -> Callable[[], Collection[str]]:
    """Return a function without arguments that imports a registry. The names in the registry are the choices."""
    return lambda: getattr(import_module(f"trainables.{module}"), registry)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSpec:
    """The settings of one trial.

    Each field with a help text becomes a command-line option (in this order), a key in space files, and a column of the
    tables. :mod:`trainables.spec_checks` validates the values.

    If ``auto_lr`` names a rule, the constructor replaces None in ``auto_lr_start``, ``auto_lr_probe`` and
    ``auto_lr_probe_batches`` by the rule's defaults.

    Attributes:
        options: the options of the method (``c``, ``beta``, ...) for which a value was given, as sorted pairs of name
            and value.
        target_epochs, target_lr, target_batch_size, target_lora_rank: values that replace those of the model's
            fine-tuning recipe; None keeps the recipe's value. Rank 0 trains all weights.
        stop_epoch: the epoch after which the run ends, on the schedule of a run of ``epochs`` epochs; None for the last
            epoch. Up to this epoch, the run is bit-identical to a run with None.
        template: the prompt template; None for the model's own template.
        template_date: the date that the tokenizer's chat template sees instead of today's date; None if the chat
            template does not use the date.
        target_key: a hash of the target, its data and, if needed, the retain model; empty until the target is prepared.
    """

    method: str = setting("method", "gdiff", "Method by name (see 'list methods').")
    options: tuple[tuple[str, float], ...] = ()
    model: str = setting("data", "tiny-phi", "Model by name, or its hub id ORG/NAME.")
    model_path: str | None = setting(
        "placement", None, "Folder of the base model, which is fine-tuned to get the target."
    )
    target_path: str | None = setting("placement", None, "Folder of a finished target, to use without fine-tuning.")
    dataset: str = setting(
        "data", "authors", "Data set by name (see 'list datasets').", "the model's", choices=_names("data", "DATASETS")
    )
    data_dir: str | None = setting("placement", None, "Read the data set's files from this folder, not from the hub.")
    forget_split: str | None = setting(
        "data", None, "Split to forget (see 'list datasets').", "forget10 for TOFU, forget for MUSE"
    )
    forget_class: str | None = setting(
        "data", None, "Class of images to forget, by name or number.", "dog, bed or 3, depending on the data set"
    )
    template: str | None = setting(
        "data",
        None,
        "Prompt template: a name (see 'list templates'), chat for the tokenizer's chat template, or a FILE.",
        "Question: ...\\nAnswer: ...",
        choices=_names("models.registry", "TEMPLATES"),
        decides=False,
    )
    template_date: str | None = setting(
        "data",
        None,
        "Date that the tokenizer's chat template sees, such as 2026-11-28. Only for a template that uses the date.",
        "the first day of the sweep or run",
        decides=False,
    )
    limit: int | None = setting(
        "data",
        None,
        "Maximum number of retain examples. In 'authors' and 'tofu', authors are kept or left out as a whole.",
        low=1,
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
        "LoRA rank for fine-tuning the target. The adapter is merged afterwards. 0 or none trains all weights.",
        low=0,
        words=_RANK,
        decides=False,
    )
    target_seed: int = setting(
        "data", 0, "Seed of the target's initial weights and fine-tuning.", **_SEED, decides=False
    )
    data_seed: int = setting("data", 0, "Seed of the generated data set 'authors'.", **_SEED, decides=False)
    lr: float = setting(
        "training",
        1e-4,
        "Learning rate; with AutoLR, the initial learning rate.",
        "the model's",
        label="learning rate",
        above=0.0,
    )
    auto_lr: str = setting(
        "auto_lr",
        "off",
        "Rule that sets the learning rate during the run (AutoLR): off, gen (the paper's), gen-clip, gen-official, "
        "gen-trust or curvature.",
        choices=("off", *RULES),
        words=MappingProxyType({"on": "gen"}),
        hints=MappingProxyType(
            {
                "paper": "the paper's rule is gen",
                "safe": "it was --auto-lr curvature --lr-decay linear --on-divergence restart --interpolate on",
            }
        ),
    )
    lr_decay: str = setting(
        "training",
        "none",
        "Schedule of the learning rate: none, or linear (to 0 over the last 30% of the steps).",
        choices=("none", "linear"),
    )
    on_divergence: str = setting(
        "training",
        "stop",
        "If a loss or gradient is NaN or infinite: stop the run, or restart it from the target at a quarter of the "
        "learning rate.",
        choices=("stop", "restart"),
    )
    interpolate: str = setting(
        "training",
        "off",
        "Interpolate the final weights towards the target until the retained answers are kept: on or off.",
        choices=("off", "on"),
    )
    seed: int = setting(
        "training",
        0,
        "Seed of a run's random numbers, such as the order of batches.",
        **_SEED,
        fixed="the option --seeds sets the number of seeds",
    )
    epochs: int = setting("training", 15, "Number of passes over the forget set.", low=1)
    max_steps: int | None = setting("training", None, "Stop after this many optimizer steps.", low=1)
    stop_epoch: float | None = setting("training", None, above=0.0, decides=False)  # spec_hash adds the value, if any
    batch_size: int = setting(
        "training",
        8,
        "Number of forget examples per step; the number of retain examples is the same.",
        "the model's",
        low=1,
    )
    micro_batch: int | None = setting(
        "training",
        None,
        "Maximum number of examples per forward pass. A smaller number needs less memory and gives the same step.",
        "the batch",
        low=1,
        decides=False,
    )
    eval_batch_size: int = setting(
        "scoring", 32, "Number of sequences or images per evaluation batch.", "the model's", low=1
    )
    max_length: int = setting(
        "data", 512, "Cut sequences after this many tokens.", "512; 2048 for MUSE", low=8, unit="tokens"
    )
    optimizer: str = setting("training", "adamw", "Optimizer by name (see 'list optimizers').", choices=OPTIMIZERS)
    d_growth: float | None = setting(
        "training",
        None,
        "For learning-rate-free optimizers: maximum factor by which the distance estimate grows per step.",
        "1.2",
        flag="--growth-rate",
        low=1.0,
        when={"optimizer": LR_FREE},
    )
    update: str = setting(
        "training",
        "plain",
        "Update: plain, sam (forget gradient at the worst weights nearby), sign (sign of the momentum) or repselect "
        "(one forget gradient, without its strongest directions).",
        choices=_names("updates", "UPDATES"),
    )
    sam_rho: float = setting(
        "training",
        0.01,
        "Distance of the weights at which the update sam takes the forget gradient.",
        above=0.0,
        when={"update": ("sam",)},
    )
    repselect_share: float = setting(
        "training",
        0.125,
        "Share of the singular directions of each matrix that the update repselect damps.",
        above=0.0,
        high=1.0,
        when={"update": ("repselect",)},
    )
    repselect_adapter_lr: float = setting(
        "training",
        0.01,
        "Learning rate with which the adversarial adapter of the update repselect learns the forget set; 0 for no "
        "adapter.",
        low=0.0,
        when={"update": ("repselect",)},
    )
    weight_decay: float = setting("training", 0.0, "Weight decay (decoupled for adamw).", low=0.0)
    momentum: float = setting("training", 0.0, "Momentum of sgd.", low=0.0, high=1.0, when={"optimizer": ("sgd",)})
    # Clipping is off by default, because it would change the gradient norm that normalised methods produce.
    max_grad_norm: float | None = setting(
        "training", None, "Clip the norm of the combined gradient to this value.", "off", above=0.0
    )
    weight_scale: str = setting(
        "method",
        "raw",
        "Weights of the two losses: raw (as published) or unit (scaled to sum to 1).",
        choices=("raw", "unit"),
    )
    retain_objective: str = setting(
        "method",
        "ce",
        "Loss on the retain set: ce, or the divergence from the target model: kl (Kullback-Leibler) or js "
        "(Jensen-Shannon).",
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
        "training",
        "fp32",
        "Precision: fp32, or bf16 (autocast to bf16, with weights in fp32).",
        choices=("fp32", "bf16"),
    )
    gradient_checkpointing: bool = setting(
        "training", False, "Recompute activations in the backward pass, which saves memory but takes more time."
    )
    auto_lr_probe: str | None = setting(
        "auto_lr",
        None,
        "The retain data on which AutoLR measures losses: same (the step's batch) or fresh (other batches).",
        "same; fresh for curvature and gen-trust",
        choices=PROBES,
    )
    auto_lr_every: int = setting("auto_lr", 10, "Steps between AutoLR updates.", low=1)
    auto_lr_start: int | None = setting(
        "auto_lr", None, "First step at which AutoLR updates the learning rate.", "10; 1 for curvature", low=1
    )
    auto_lr_probe_batches: int | None = setting(
        "auto_lr",
        None,
        "Number of fresh retain batches over which AutoLR averages each loss.",
        "1 for gen-trust; otherwise 2, or more if 2 batches have fewer than 8 examples",
        low=1,
        when={**_AUTO, "auto_lr_probe": ("fresh",)},
    )
    auto_lr_delta: float = setting(
        "auto_lr",
        0.005,
        "Rise of the retain loss that gen-trust accepts until its next update, in nats per token.",
        low=0.0,
        unit="nats per token",
        when={"auto_lr": ("gen-trust",)},
    )
    auto_lr_log_forget: bool = setting(
        "auto_lr", True, "Also log the forget loss whenever AutoLR measures losses.", "yes", decides=False
    )
    loss_examples: int = setting(
        "data", 64, "Number of retain examples on which the retain loss is evaluated.", low=1, decides=False
    )
    eval_every: int = setting(
        "scoring", 1, "Epochs between evaluations of the losses; the last epoch is always evaluated.", low=1
    )
    metrics: tuple[str, ...] = setting(
        "scoring",
        (),
        "Metrics: NAME,... or sets: all, tofu, ... (see 'list metrics'), or lm_eval:TASK.",
        "default",
    )
    metrics_every: int | None = setting(
        "scoring",
        None,
        "Epochs between measurements of the metrics; the last epoch is always measured.",
        "only at the end",
        low=1,
        fixed="",
    )
    leak_samples: int = setting(
        "attack", 16, "Number of sampled answers to each question (n of leak@k), in the attack 'sample'.", low=1
    )
    leak_k: int = setting(
        "attack",
        4,
        "In the attack 'sample', a fact leaks if at least one of this many answers tells it (k of leak@k).",
        low=1,
    )
    relearn_lr: float | None = setting(
        "attack",
        None,
        "Learning rate of the attacks 'relearn' and 'benign'.",
        "that of the target's fine-tuning; 2e-5 if only one of both was trained with LoRA",
        above=0.0,
    )
    retain_path: str | None = setting(
        "placement",
        None,
        "Folder of a retain model (trained without the forget set), with which some metrics compare the model.",
        "trained",
        flag="--retain-model",
    )
    target_key: str = setting("data", "")

    def __post_init__(self) -> None:
        rule = RULES.get(self.auto_lr)
        if rule is None:
            return
        self._default("auto_lr_start", rule.start)
        self._default("auto_lr_probe", rule.probe)
        if self.auto_lr_probe == "fresh" and FIELDS["batch_size"].fits(self.batch_size):
            self._default("auto_lr_probe_batches", rule.probe_batches or enough_probe_batches(self.batch_size))

    def _default(self, name: str, value: object) -> None:
        if getattr(self, name) is None:
            object.__setattr__(self, name, value)

    @property
    def parsed_method(self) -> Method:
        from trainables.methods import parse_method

        return parse_method(self.method)

    @property
    def option_values(self) -> dict[str, float]:
        """The value of every option of the method by name: the given value or its default."""
        return self.parsed_method.resolve(dict(self.options))

    @property
    def spec_hash(self) -> str:
        """16 hex digits of a hash of all settings that can change the result. The values 1 and 1.0 have the same hash.

        A setting without effect, such as AutoLR's rule while AutoLR is off, is not part of the hash.
        """
        import hashlib
        import json

        values = self.values()
        content: dict[str, object] = {}
        for name, item in FIELDS.items():
            if item.decides and item.has_effect(values):
                content[name] = item.convert(values[name])
        if content["update"] == "plain":
            del content["update"]  # trials of sweeps without this setting keep their hash
        content["method"] = self.parsed_method.name
        content["options"] = sorted((name, float(value)) for name, value in self.option_values.items())
        if self.stop_epoch is not None:
            content["stop_epoch"] = float(self.stop_epoch)
        if digests := self.plugin_digests:
            content["plugins"] = digests
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def plugin_digests(self) -> list[str]:
        from trainables import plugins

        if not plugins.active():
            return []
        from trainables.metrics.registry import metrics_in

        method = self.parsed_method
        entries = [
            ("weighting", method.weighting.name),
            ("objective", method.objective.name),
            ("update", self.update),
            ("data set", self.dataset),
            ("model", self.model),
            ("template", self.template),
        ]
        entries += [("metric", name.removesuffix("_distance")) for name in metrics_in(self.metrics)]
        return plugins.digests(entries)

    def values(self) -> dict[str, object]:
        """Return the value of every field except ``options``, by name."""
        return {name: getattr(self, name) for name in FIELDS}

    def row(self) -> dict[str, object]:
        """Return the trial's columns for a table of trials: all settings, and the options of all methods.

        An option that the trial's method does not have is None.
        """
        from trainables.methods import option_names

        joined_lists = {name: ",".join(getattr(self, name)) or None for name, item in FIELDS.items() if item.many}
        method_options = self.option_values
        all_options = {name: method_options.get(name) for name in option_names()}
        return self.values() | joined_lists | all_options

    def to_dict(self) -> dict[str, object]:
        """Return a JSON-serialisable mapping that :meth:`from_dict` reads."""
        return self.values() | {"options": dict(self.options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> TrialSpec:
        """Return the spec from the result of :meth:`to_dict`.

        Raises:
            ValueError: some keys are not settings of this version.
        """
        arguments: dict[str, Any] = dict(values)
        if unknown := [name for name in arguments if name not in cls.__dataclass_fields__]:
            raise ValueError(
                f"this version has no settings {', '.join(unknown)}; another version wrote them, which can continue "
                "the run; in this version, start a new one"
            )
        arguments["options"] = tuple(sorted(arguments["options"].items()))
        arguments |= {name: tuple(arguments[name]) for name, item in FIELDS.items() if item.many}
        return cls(**arguments)


def _build_fields() -> dict[str, Field]:
    hints = get_type_hints(TrialSpec)
    field_by_name = {}
    for item in fields(TrialSpec):
        if not item.metadata:
            continue
        types = get_args(hints[item.name]) or (hints[item.name],)  # the types in "int | None" or "tuple[str, ...]"
        role = item.metadata["role"]
        needs_auto_lr = role == "auto_lr" and item.name != "auto_lr"
        derived = {
            "kind": types[0],
            "many": Ellipsis in types,
            "optional": NoneType in types,
            "label": item.name.replace("auto_lr", "AutoLR").replace("_", " "),
            "when": _AUTO if needs_auto_lr else {},
            "flag": f"--{item.name.replace('_', '-')}" if item.metadata["help"] else "",
            "decides": role not in ("attack", "placement"),
            "fixed": _SHARED if role in ("data", "placement", "scoring", "attack") else "",
        }
        field_by_name[item.name] = Field(name=item.name, default=item.default, **{**derived, **item.metadata})
    return field_by_name


FIELDS: Mapping[str, Field] = MappingProxyType(_build_fields())
"""The description of every field except ``options``, by name."""
