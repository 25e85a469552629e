"""Everything that can be wrong with a trial's spec: a setting by itself, and what does not go together."""

from __future__ import annotations

from trainables.data import DATASETS, FORGET_SPLITS, IMAGE_DATASETS
from trainables.methods import Method, MethodError, retain_objective_problem, weight_scale_problem
from trainables.metrics.registry import unknown_names
from trainables.models.registry import MODELS
from trainables.objectives import RETAIN_OBJECTIVES, Reference
from trainables.run.optimizers import LR_FREE
from trainables.spec import FIELDS, TrialSpec


def problems(spec: TrialSpec) -> list[str]:
    """One plain sentence for each, empty when the spec can run; see :meth:`TrialSpec.problems`."""
    found = [text for name, item in FIELDS.items() if (text := item.problem(getattr(spec, name)))]
    found += unknown_names(spec.metrics) + _misfits(spec) + _modality_problems(spec)
    try:
        method = spec.parsed_method
    except MethodError as error:
        return [*found, str(error)]
    return (
        found
        + method_problems(spec, method)
        + [problem for name, value in spec.options if (problem := _option_problem(method, name, value))]
    )


def method_problems(spec: TrialSpec, method: Method) -> list[str]:
    """Why the spec's other settings do not go with the method."""
    of_method = (
        weight_scale_problem(method, spec.weight_scale),
        retain_objective_problem(method, spec.retain_objective) if spec.retain_objective in RETAIN_OBJECTIVES else None,
        images_problem(method, spec.dataset),
    )
    return [text for text in of_method if text]


def _option_problem(method: Method, name: str, value: float) -> str | None:
    option = method.options.get(name)
    if option is not None:
        return option.problem(value)
    applies = ", ".join(method.options) or "none"
    return f"option {name} does not apply to method '{method.name}' (its options: {applies})"


def images_problem(method: Method, dataset: str) -> str | None:
    """Why a method cannot unlearn image classifiers, where the data set is one of images; None where it can."""
    lacking = {
        Reference.PAIR_NLL: "answers in words to put in the place of the forgotten ones",
        Reference.HIDDEN: "decoder blocks, whose hidden states it is made from",
    }.get(method.objective.reference)
    if dataset not in IMAGE_DATASETS or lacking is None:
        return None
    return f"method '{method.name}' does not apply to data set {dataset}: image classifiers have no {lacking}"


def _misfits(spec: TrialSpec) -> list[str]:
    """What is right alone and wrong beside the rest."""
    values = spec.values()
    found = [
        f"{item.title} applies to {name} {', '.join(expected)} only, got {values[name]}"
        for item in FIELDS.values()
        if item.role != "auto_lr" and values[item.name] not in (None, item.default)  # AutoLR's may stand beside off
        for name, expected in item.when.items()
        if values[name] not in expected
    ]
    if spec.auto_lr == "on" and spec.optimizer in LR_FREE:
        found.append(
            f"AutoLR does not go with optimizer {spec.optimizer}: it chooses its own step length, and its "
            "update is not linear in lr; use adamw or sgd, or --auto-lr off"
        )
    splits = FORGET_SPLITS.get(spec.dataset)
    if splits is not None and spec.forget_split not in (None, *splits):
        expected = f"expected one of {', '.join(splits)}" if splits else "this data set has no such choice"
        found.append(f"forget split '{spec.forget_split}' does not fit data set {spec.dataset}: {expected}")
    return found


def _modality_problems(spec: TrialSpec) -> list[str]:
    """What does not go together: a model and data of another kind, and options only one kind of model has."""
    found = []
    images = spec.dataset in IMAGE_DATASETS
    kind = "vision" if images else "language"
    expected = MODELS[spec.model].modality if spec.model in MODELS else None
    if expected is not None and expected != kind and spec.dataset in DATASETS:
        fitting = [name for name in DATASETS if (name in IMAGE_DATASETS) == (expected == "vision")]
        found.append(
            f"model {spec.model} and data set {spec.dataset} do not go together: a {expected} model takes one of "
            f"{', '.join(fitting)}"
        )
    if spec.forget_class is not None and not images:
        found.append(f"forget_class applies to {', '.join(IMAGE_DATASETS)} only, not to {spec.dataset}")
    if not images:
        return found
    for name in ("lora_rank", "target_lora_rank"):
        if getattr(spec, name):
            found.append(f"{name} does not apply to image classifiers: all their weights are trained, convolutions too")
    if spec.gradient_checkpointing:
        found.append("gradient_checkpointing does not apply to image classifiers: a ResNet does not have it")
    if spec.max_length != FIELDS["max_length"].default:
        found.append(f"max_length does not apply to images, got {spec.max_length}")
    return found
