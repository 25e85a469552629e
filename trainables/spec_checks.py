"""Check a trial's settings, and the names that plug-ins add to registries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from search_spaces.common.messages import did_you_mean
from trainables import plugins
from trainables.attacks.registry import ATTACKS, attack_sets
from trainables.data import DATASETS
from trainables.methods import Method, MethodError
from trainables.metrics.registry import METRICS, SETS, unknown_names
from trainables.modality import dataset_modality
from trainables.models.registry import MODELS, TEMPLATES, find_model
from trainables.objectives import ALIASES, OBJECTIVES, Reference
from trainables.optimizers import LR_FREE
from trainables.spec import FIELDS, TrialSpec
from trainables.updates import UPDATES
from trainables.weightings import WEIGHTINGS, Needs


def trial_problems(spec: TrialSpec) -> list[str]:
    """Return a message for each problem with a spec; an empty list if the trial can run."""
    messages = [field.problem(getattr(spec, name)) for name, field in FIELDS.items()]
    problems = [message for message in messages if message]
    if not all(field.fits(getattr(spec, name)) for name, field in FIELDS.items()):
        return problems  # the other checks need values of the right types
    problems += unknown_names(spec.metrics) + _setting_problems(spec) + _modality_problems(spec)
    try:
        method = spec.parsed_method
    except MethodError as error:
        return [*problems, str(error)]
    option_messages = [_option_problem(method, name, value) for name, value in spec.options]
    return problems + method_problems(spec, method) + [message for message in option_messages if message]


def method_problems(spec: TrialSpec, method: Method) -> list[str]:
    """Return a message for each setting that cannot be combined with the method."""
    problems = []
    objective = method.objective
    weighting = method.weighting
    if spec.weight_scale != "raw" and weighting.needs.combines:
        problems.append(
            f"weight_scale {spec.weight_scale} cannot be used with {weighting.name}, because {weighting.name} combines "
            "the gradients without weights"
        )
    if spec.retain_objective != "ce" and objective.reference is Reference.HIDDEN:
        problems.append(
            f"retain_objective {spec.retain_objective} cannot be used with method '{method.name}': {objective.name} "
            "has its own retain objective, a distance between hidden states; leave retain_objective at ce"
        )
    elif spec.retain_objective != "ce" and weighting.needs is Needs.FORGET_ONLY:
        problems.append(
            f"retain_objective {spec.retain_objective} has no effect with method '{method.name}', because the "
            f"weighting {weighting.name} uses only the forget loss; leave retain_objective at ce, or choose another "
            f"method, such as {objective.name}+ngdiff"
        )
    update = UPDATES.get(spec.update)
    if weighting.needs is Needs.RETAIN_ONLY and update is not None and update.changes_forget_gradient:
        problems.append(
            f"update {spec.update} has no effect with method '{method.name}': the update changes the forget gradient, "
            f"which the weighting {weighting.name} does not use; leave update at plain, or choose another method"
        )
    modality = dataset_modality(spec.dataset)
    if update is not None and update.fixed_gradient is not None:
        if Reference.HIDDEN in modality.missing_outputs:
            problems.append(
                f"update {spec.update} does not apply to data set {spec.dataset}: {modality.models} have no decoder "
                "blocks, whose matrices the update changes"
            )
        elif spec.lora_rank is not None:
            problems.append(
                f"update {spec.update} cannot be used with lora_rank {spec.lora_rank}: the update changes matrices of "
                "the model, which LoRA does not train; use lora_rank none, or another update"
            )
    if weighting.needs is Needs.RETAIN_EXAMPLES and (reason := modality.unused_fields.get("micro_batch")):
        problems.append(
            f"method '{method.name}' does not apply to data set {spec.dataset}: {weighting.name} computes one gradient "
            f"per retain example, but {reason}"
        )
    if objective.reference.has_preferred_answers and spec.dataset in DATASETS and DATASETS[spec.dataset].is_text:
        problems.append(
            f"method '{method.name}' does not apply to data set {spec.dataset}: {objective.name} prefers another "
            "answer to each question, and the examples are texts without questions"
        )
    if missing := modality.missing_outputs.get(objective.reference):
        problems.append(
            f"method '{method.name}' does not apply to data set {spec.dataset}: {modality.models} have no {missing}"
        )
    return problems


def _option_problem(method: Method, name: str, value: float) -> str | None:
    option = method.options.get(name)
    if option is not None:
        return option.problem(value)
    available = ", ".join(method.options) or "none"
    suggestion = did_you_mean(name, method.options)
    hint = f"; {suggestion}" if suggestion else ""
    return f"option {name} does not apply to method '{method.name}' (its options: {available}){hint}"


def _setting_problems(spec: TrialSpec) -> list[str]:
    values = spec.values()
    problems = []
    for field in FIELDS.values():
        is_set = values[field.name] not in (None, field.default)
        # The settings of AutoLR and of updates may be set in trials without AutoLR or with another update.
        if field.role == "auto_lr" or "update" in field.when or not is_set:
            continue
        for name, required_values in field.when.items():
            if values[name] not in required_values:
                problems.append(
                    f"{field.title} applies only to {name} {', '.join(required_values)}, got {name} {values[name]}"
                )
    if spec.auto_lr != "off" and spec.optimizer in LR_FREE:
        problems.append(
            f"AutoLR cannot be used with optimizer {spec.optimizer}: this optimizer chooses its own step length, and "
            "its update is not linear in lr; use adamw or sgd, or --auto-lr off"
        )
    optimizers = UPDATES[spec.update].optimizers if spec.update in UPDATES else ()
    if optimizers and spec.optimizer not in optimizers:
        problems.append(
            f"update {spec.update} cannot be used with optimizer {spec.optimizer}; use the optimizer "
            f"{' or '.join(optimizers)}, or the update plain"
        )
    if spec.leak_k > spec.leak_samples:
        problems.append(
            f"--leak-k {spec.leak_k} is above --leak-samples {spec.leak_samples}: leak@k needs at least k sampled "
            "answers to each question; give more samples or a smaller k"
        )
    if spec.dataset in DATASETS:
        problems += DATASETS[spec.dataset].choice_problems(spec.forget_split, spec.forget_class, spec.data_seed)
    if spec.target_seed and spec.target_path is not None:
        problems.append("target_seed does not apply with target_path, because a finished target is not trained")
    return problems


def _modality_problems(spec: TrialSpec) -> list[str]:
    if spec.dataset not in DATASETS:
        return []
    problems = []
    modality = dataset_modality(spec.dataset)
    is_own_model = spec.model not in MODELS and bool(spec.model_path or spec.target_path)
    model_modality = None if is_own_model else find_model(spec.model).modality
    if model_modality not in (None, modality.name):
        matching_datasets = ", ".join(name for name, data in DATASETS.items() if data.modality == model_modality)
        problems.append(
            f"model {spec.model} cannot be used with data set {spec.dataset}: a {model_modality} model needs one of "
            f"the data sets {matching_datasets}"
        )
    for name, reason in modality.unused_fields.items():
        value = getattr(spec, name)
        if value and value != FIELDS[name].default:
            problems.append(f"{name} does not apply to {modality.models}, got {value}: {reason}")
    return problems


def name_conflicts() -> list[str]:
    """Return a message for each plug-in entry whose name another entry already has.

    The call uses all registries, so plug-ins can no longer be activated afterwards.
    """
    # An attack is also the name of the set of its metrics.
    own_sets = {name: tuple(item.name for item in METRICS.values() if item.attack == name) for name in ATTACKS}
    other_sets = {name for name in SETS if SETS[name] != own_sets.get(name)}
    # The registry of each kind, and the names that other registries use
    registries: Mapping[str, tuple[Mapping[str, Any], set[str]]] = {
        "weighting": (WEIGHTINGS, {*OBJECTIVES, *ALIASES}),
        "objective": (OBJECTIVES, {*WEIGHTINGS, *ALIASES}),
        "metric": (METRICS, {*SETS}),
        "attack": (ATTACKS, {*METRICS, *other_sets, *attack_sets()}),
        "data set": (DATASETS, set()),
        "model": (MODELS, set()),
        "template": (TEMPLATES, set()),
        "update": (UPDATES, set()),
    }
    problems = []
    for plugin in plugins.active():
        for part in plugin.parts:
            if part.kind == plugins.QUESTION_SET:  # its metrics are in a registry
                continue
            registry, other_names = registries[part.kind]
            if registry[part.name] is not part.entry or part.name in other_names:
                problems.append(f"{plugin.path}: the name '{part.name}' is already used; rename this {part.kind}")
    return problems
