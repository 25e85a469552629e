"""The metrics by name: which way is better, the bounds, what each needs and costs, its formula and source.

Torch-free: ``list metrics``, the option ``--metrics`` and the objectives of a search are read from this table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType


class Need(StrEnum):
    """What a metric needs of the data, or beside the model."""

    CHOICES = "paraphrased and perturbed answers"
    EXTRA_SETS = "the sets real_authors and world_facts"
    HOLDOUT = "a holdout set"
    RETAIN_MODEL = "a retain model (--retain-model DIR where none can be trained)"
    KNOWMEM = "questions about what the forget set says (MUSE)"
    IMAGES = "images"


class Cost(StrEnum):
    """What measuring takes, in passes over an evaluation set."""

    FORWARD = "one forward pass"
    CHOICES = "one forward pass per paraphrased or perturbed answer"
    GENERATION = "greedy generation"
    ALL = "forward passes, choices and generation on all four sets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric. ``high`` is None where the bound is the loss of a random guess, ``ln|V|``.

    A loss's ``label`` has the place ``{unit}``: what it is a mean over, token or image. A metric has a ``direction``,
    max or min, or an ``ideal`` between its bounds that it should be near to; of such a one the distance from the ideal
    is a metric of its own (:func:`distance_name`).
    """

    name: str
    label: str
    direction: str | None = None
    ideal: float | None = None
    low: float = 0.0
    high: float | None = 1.0
    needs: tuple[Need, ...] = ()
    cost: Cost
    formula: str
    citation: str

    @property
    def better(self) -> str:
        """``higher`` or ``lower``, or which value is ideal."""
        if self.ideal is not None:
            return f"{self.ideal:g} is ideal"
        return {"max": "higher", "min": "lower"}[str(self.direction)]


TOFU = "Maini et al., TOFU, COLM 2024 (arXiv:2401.06121)"
MUSE = "Shi et al., MUSE, ICLR 2025 (arXiv:2407.06460)"
_CARLINI = (
    "Carlini et al., Extracting Training Data from Large Language Models, USENIX Security 2021 (arXiv:2012.07805)"
)
_MIA = "AUC of telling the forget set (members) from the holdout set"


def _attack(name: str, label: str, score: str, citation: str, *more: Need) -> Metric:
    return Metric(
        name=name,
        label=f"membership inference by {label} (AUC)",
        ideal=0.5,
        needs=(Need.HOLDOUT, *more),
        cost=Cost.FORWARD,
        formula=f"{_MIA} by {score}; 0.5 tells nothing apart",
        citation=citation,
    )


def distance_name(name: str) -> str:
    """What the distance of a metric from its ideal value is called."""
    return f"{name}_distance"


def _distance(metric: Metric, high: float) -> Metric:
    """How far ``metric`` is from its ideal value, either way."""
    assert metric.ideal is not None
    subject, _, unit = metric.label.partition(" (")
    return replace(
        metric,
        name=distance_name(metric.name),
        label=f"{subject}, distance from {metric.ideal:g} ({unit}",
        direction="min",
        ideal=None,
        low=0.0,
        high=high,
        formula=f"|{metric.name} - {metric.ideal:g}|" if metric.ideal else f"|{metric.name}|",
    )


def _accuracy(name: str, label: str, direction: str, of: str, *more: Need) -> Metric:
    return Metric(
        name=name,
        label=label,
        direction=direction,
        needs=(Need.IMAGES, *more),
        cost=Cost.FORWARD,
        formula=f"share of {of} whose most probable label is theirs",
        citation="Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020 (arXiv:1911.04933)",
    )


_ENTRIES = (
    Metric(
        name="forget_loss",
        label="forget loss (nats per {unit})",
        direction="max",
        high=None,
        cost=Cost.FORWARD,
        formula="sum of -log p over the supervised tokens of the forget set / their number",
        citation="the paper's L_F; as an objective capped at ln|V|",
    ),
    Metric(
        name="retain_loss",
        label="retain loss (nats per {unit})",
        direction="min",
        high=None,
        cost=Cost.FORWARD,
        formula="the same on the fixed sample of the retain set",
        citation="the paper's L_R",
    ),
    Metric(
        name="verbmem",
        label="verbatim memorisation of the forget set (ROUGE-L recall)",
        direction="min",
        cost=Cost.GENERATION,
        formula="mean ROUGE-L recall of greedy continuations on the forget set",
        citation=MUSE,
    ),
    Metric(
        name="knowmem",
        label="knowledge memorisation of the forget set (ROUGE-L recall)",
        direction="min",
        needs=(Need.KNOWMEM,),
        cost=Cost.GENERATION,
        formula="mean ROUGE-L recall of greedy answers to questions about the forget set",
        citation=MUSE,
    ),
    Metric(
        name="utility",
        label="utility on the retain set (ROUGE-L recall)",
        direction="max",
        cost=Cost.GENERATION,
        formula="mean ROUGE-L recall of greedy answers on the sample of the retain set",
        citation=MUSE,
    ),
    Metric(
        name="truth_ratio",
        label="truth ratio on the retain set",
        direction="max",
        needs=(Need.CHOICES,),
        cost=Cost.CHOICES,
        formula="mean max(0, 1 - R), R = exp(loss_paraphrased - mean_k loss_perturbed_k), retain sample",
        citation=TOFU,
    ),
    Metric(
        name="forget_truth_ratio",
        label="truth ratio on the forget set",
        direction="max",
        needs=(Need.CHOICES,),
        cost=Cost.CHOICES,
        formula="mean min(R, 1/R) on the forget set",
        citation=TOFU,
    ),
    _accuracy("forget_accuracy", "accuracy on the forget set", "min", "the forget set's images"),
    _accuracy("retain_accuracy", "accuracy on the retain set", "max", "the sample of the retain set's images"),
    _accuracy(
        "test_accuracy",
        "accuracy on held-out images of the retained classes",
        "max",
        "held-out images of the retained classes",
        Need.HOLDOUT,
    ),
    Metric(
        name="forget_probability",
        label="probability of the forget set's answers",
        direction="min",
        cost=Cost.FORWARD,
        formula="mean exp(-loss per token) on the forget set",
        citation=TOFU,
    ),
    Metric(
        name="retain_probability",
        label="probability of the retain set's answers",
        direction="max",
        cost=Cost.FORWARD,
        formula="mean exp(-loss per token) on the sample of the retain set",
        citation=TOFU,
    ),
    Metric(
        name="forget_quality",
        label="forget quality (p-value)",
        direction="max",
        needs=(Need.CHOICES, Need.RETAIN_MODEL),
        cost=Cost.CHOICES,
        formula="p-value of a two-sample Kolmogorov-Smirnov test: forget truth ratios against the retain model's",
        citation=TOFU,
    ),
    Metric(
        name="model_utility",
        label="model utility",
        direction="max",
        needs=(Need.CHOICES, Need.EXTRA_SETS),
        cost=Cost.ALL,
        formula="harmonic mean of 9: {retain, real authors, world facts} x {probability, ROUGE-L recall, truth ratio}",
        citation=TOFU,
    ),
    Metric(
        name="extraction_strength",
        label="extraction strength on the forget set",
        direction="min",
        cost=Cost.FORWARD,
        formula="mean 1 - k/T, k the shortest prefix of the T answer tokens from which greedy decoding gives the rest",
        citation=_CARLINI,
    ),
    Metric(
        name="exact_memorization",
        label="exact memorization of the forget set",
        direction="min",
        cost=Cost.FORWARD,
        formula="mean share of answer tokens that are the likeliest after the true ones before them",
        citation="Tirumala et al., Memorization Without Overfitting, NeurIPS 2022 (arXiv:2205.10770)",
    ),
    _attack("mia_loss", "loss", "mean log p", "Yeom et al., Privacy Risk in Machine Learning, 2018 (arXiv:1709.01604)"),
    _attack("mia_zlib", "zlib", "mean log p / bytes of the zlib-compressed text", _CARLINI),
    _attack(
        "mia_min_k",
        "min-k%",
        "the mean of the lowest 40% of log p",
        "Shi et al., Detecting Pretraining Data, ICLR 2024 (arXiv:2310.16789)",
    ),
    _attack(
        "mia_min_k_plus_plus",
        "min-k%++",
        "the mean of the lowest 40% of (log p - mu) / sigma",
        "Zhang et al., Min-K%++, ICLR 2025 (arXiv:2404.02936)",
    ),
    _attack("mia_reference", "reference", "mean log p - mean log p of the retain model", _CARLINI, Need.RETAIN_MODEL),
    Metric(
        name="privleak",
        label="privacy leakage (percent)",
        ideal=0.0,
        low=-100.0,
        high=math.inf,
        needs=(Need.HOLDOUT, Need.RETAIN_MODEL),
        cost=Cost.FORWARD,
        formula="100 (A - A_retrained) / A_retrained, A = 1 - AUC of min-k%",
        citation=MUSE,
    ),
)

# Both ways as far as to the nearer bound: what lies further is no better than a model that forgot nothing.
_DISTANCES = tuple(_distance(entry, entry.ideal - entry.low) for entry in _ENTRIES if entry.ideal is not None)
METRICS: Mapping[str, Metric] = MappingProxyType({entry.name: entry for entry in (*_ENTRIES, *_DISTANCES)})
LOSS_METRICS = ("forget_loss", "retain_loss")
"""Measured after every epoch, whatever is chosen."""

ACCURACIES = ("forget_accuracy", "retain_accuracy", "test_accuracy")
"""Of image classifiers: on the forget set, the retain sample, and held-out images of the retained classes."""

DEFAULT_SET = ("verbmem", "knowmem", "utility", "truth_ratio", "forget_truth_ratio", *ACCURACIES)
SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "default": DEFAULT_SET,
        "probability": ("forget_probability", "retain_probability"),
        "accuracy": ("forget_accuracy", "retain_accuracy", "test_accuracy"),
        "tofu": (
            *("verbmem", "utility", "truth_ratio", "forget_truth_ratio"),
            *("forget_probability", "retain_probability", "model_utility", "forget_quality"),
        ),
        "muse": ("verbmem", "knowmem", "utility", "privleak"),
        "mia": tuple(entry.name for entry in _ENTRIES if entry.name.startswith("mia_")),
        "all": tuple(entry.name for entry in _ENTRIES if entry.name not in LOSS_METRICS),
    }
)
"""Names that stand for several metrics; of a set, what the data cannot give is left out."""


def split_names(text: str) -> tuple[str, ...]:
    """``a,b,c`` as names, in order, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def unknown_names(names: Sequence[str]) -> list[str]:
    """A plain sentence for each name that is neither a metric nor a set."""
    return [
        f"unknown metric '{name}': expected one of {', '.join(METRICS)}; or a set: {', '.join(SETS)}"
        for name in names
        if name not in METRICS and name not in SETS
    ]


def chosen_metrics(names: Sequence[str], missing: Mapping[str, str]) -> tuple[str, ...]:
    """The metrics to measure: ``names`` with sets spelled out, in the order of the table; empty is the default set.

    ``missing`` says of a metric why it cannot be had (:func:`missing_metrics`); a set goes on without those.
    """
    wanted = {name for name in names if name in METRICS}
    for name in names or ("default",):
        wanted |= {member for member in SETS.get(name, ()) if member not in missing}
    return tuple(name for name in METRICS if name in wanted and name not in LOSS_METRICS)


def missing_metrics(has: Mapping[Need, bool]) -> dict[str, str]:
    """The metrics that cannot be measured, each with what it lacks."""
    return {
        name: " and ".join(lacking)
        for name, metric in METRICS.items()
        if (lacking := [str(need) for need in metric.needs if not has[need]])
    }


def needs_retain_model(names: Sequence[str]) -> bool:
    """Whether one of the metrics compares with a model trained without the forget set."""
    return any(Need.RETAIN_MODEL in METRICS[name].needs for name in names)
