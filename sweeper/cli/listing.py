"""The command ``list``, which prints the entries of a registry, such as the methods or the metrics."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from search_spaces.common.values import json_text
from sweeper.cli.options import command, json_option
from sweeper.settings.options import ListOptions
from sweeper.settings.sources import Raw

if TYPE_CHECKING:
    from trainables.metrics.metric import Metric

KINDS = ("methods", "updates", "optimizers", "models", "datasets", "metrics", "attacks", "templates")
_WIDTH = 100
_UNIFORM_GUESS = "ln|V| (V: the vocabulary or the classes)"
"""The upper bound of a loss: the loss of a uniform guess."""


@command(ListOptions, click.argument("kind", type=click.Choice(KINDS)), json_option())
def listing(raw: Raw, problems: list[str], *, kind: str, as_json: bool) -> None:
    """List the methods, updates, optimizers, models, datasets, metrics, attacks or templates, including plug-ins."""
    from sweeper.checks.world import load_plugins

    load_plugins(raw)
    rows_of_kind = {
        "methods": _methods, "updates": _updates, "optimizers": _optimizers, "models": _models,
        "datasets": _datasets, "metrics": _metrics, "attacks": _attacks, "templates": _templates,
    }  # fmt: skip
    rows = rows_of_kind[kind]()
    if as_json:
        click.echo(json_text(rows))
        return
    for row in rows:
        click.echo(str(row.pop("name")))
        for key, value in row.items():
            if value not in ("", [], None):
                click.echo(textwrap.fill(f"{key}: {value}", _WIDTH, initial_indent="    ", subsequent_indent="      "))


def _methods() -> list[dict[str, object]]:
    from search_spaces.common.fields import LINEAR, LOG, LOG_TO_ONE
    from trainables.methods import method_names, parse_method
    from trainables.objectives import ALIASES, Reference
    from trainables.weightings import Needs

    target_needs = {
        Reference.SEQUENCE_NLL: "log-likelihoods, computed once",
        Reference.PAIR_NLL: "log-likelihoods, computed once",
        Reference.ALTERNATE_NLL: "other answers to the forget questions and their log-likelihoods, computed once",
        Reference.LOGITS: "logits, computed in one more forward pass per step",
        Reference.HIDDEN: "hidden states, computed in one more forward pass per step",
    }
    rows: list[dict[str, object]] = []
    for name in method_names():
        method = parse_method(name)
        passes = 2 if method.weighting.needs is Needs.GRAMIAN or method.weighting.needs.combines else 1
        is_per_example = method.weighting.needs is Needs.RETAIN_EXAMPLES
        options = []
        for option in method.owned_options.values():
            bounds = f"allowed from {option.lower_bound:g} to {option.high:g}"
            search = "not searched"
            if span := option.range:
                scales = {LINEAR: "uniformly", LOG: "log-uniformly", LOG_TO_ONE: f"log-uniformly in 1 - {option.name}"}
                search = f"searched from {span.low:g} to {span.high:g}, {scales[span.scale]}"
            options.append(f"{option.name}: {option.help} (default {option.default:g}, {bounds}, {search})")
        is_objective = name == method.objective.name
        rows.append(
            {
                "name": name,
                "also called": ", ".join(alias for alias, full_name in ALIASES.items() if full_name == name),
                "objective": f"{method.objective.name}: {method.objective.formula}",
                "weighting": f"{method.weighting.name}: {method.weighting.formula}",
                "options": "; ".join(options),
                "needs of the target": target_needs.get(method.objective.reference, ""),
                "gradient buffers": passes + method.weighting.buffers,
                "backward passes": passes,
                "per retain example": "one more gradient buffer and backward pass" if is_per_example else "",
                "citation": method.objective.citation if is_objective else method.weighting.citation,
                "yours": _source("objective", method.objective.name) or _source("weighting", method.weighting.name),
            }
        )
    return rows


def _updates() -> list[dict[str, object]]:
    from trainables.updates import UPDATES

    return [
        {
            "name": item.name,
            "step": item.formula,
            "forward passes over the forget batch": item.forward_passes,
            "optimizers": ", ".join(item.optimizers) or "all",
            "citation": item.citation,
            "yours": _source("update", item.name),
        }
        for item in UPDATES.values()
    ]


def _optimizers() -> list[dict[str, object]]:
    from trainables.optimizers import OPTIMIZER_INFO

    return [
        {
            "name": info.name,
            "update": info.rule,
            "options": info.options,
            "tensors kept per weight": info.buffers,
            "AutoLR": "not available, because this optimizer chooses its own step length" if info.lr_free else "yes",
            "citation": info.citation,
        }
        for info in OPTIMIZER_INFO.values()
    ]


def _models() -> list[dict[str, object]]:
    from trainables.models.registry import MODELS

    return [
        {
            "name": item.name,
            "description": item.description,
            "default data": item.dataset,
            "hub": item.hub_id,
            "trains": "all weights" if item.lora_rank is None else f"LoRA of rank {item.lora_rank}",
            "learning rate": f"{item.lr:g}, searched from {item.lr_range[0]:g} to {item.lr_range[1]:g}",
            "batch size": item.batch_size,
            "template": item.template.replace("\n", "\\n"),
            "yours": _source("model", item.name),
        }
        for item in MODELS.values()
    ]


def _measured_when(metric: Metric, entries: str) -> str:
    if metric.loss:
        return "always, after every epoch"
    if metric.attack:
        return f"with --attacks {metric.attack}"
    if metric.after_search:
        return f"with --metrics {entries}, on stored models after the search"
    return f"with --metrics {entries}" + ", after every evaluation of the losses" * metric.each_evaluation


def _metrics() -> list[dict[str, object]]:
    from trainables.metrics.metric import TARGET
    from trainables.metrics.registry import METRICS, SETS

    rows: list[dict[str, object]] = []
    for name, metric in METRICS.items():
        high = _UNIFORM_GUESS if metric.high is None else f"{metric.high:g}"
        set_names = [set_name for set_name, metrics in SETS.items() if name in metrics]
        entries = " or ".join([name, *set_names])
        needs = [metric.kind] + [need.description for need in metric.needs] + [TARGET] * metric.needs_target
        rows.append(
            {
                "name": name,
                "label": metric.axis("token or image"),
                "better": metric.better,
                "bounds": f"{metric.low:g} to {high}",
                "measured": _measured_when(metric, entries),
                "needs": ", ".join(need for need in needs if need),
                "cost": str(metric.cost),
                "formula": metric.formula,
                "citation": metric.citation,
                "yours": _source("metric", name.removesuffix("_distance")),
            }
        )
    return rows


def _attacks() -> list[dict[str, object]]:
    from trainables.attacks.registry import ATTACKS
    from trainables.metrics.registry import SETS

    return [
        {
            "name": item.name,
            "what it does": item.formula,
            "metrics": ", ".join(SETS[item.name]),
            "options": item.options,
            "sets": ", ".join((*item.sets, "all")),
            "needs": ", ".join(need.description for need in item.needs),
            "cost": item.cost,
            "citation": item.citation,
            "yours": _source("attack", item.name),
        }
        for item in ATTACKS.values()
    ]


def _datasets() -> list[dict[str, object]]:
    from trainables.data import DATASETS

    rows: list[dict[str, object]] = []
    for item in DATASETS.values():
        use = "required" if item.hub_id is None else "used instead of the hub"
        rows.append(
            {
                "name": item.name,
                "description": item.description,
                "forget splits": ", ".join(item.forget_splits),
                "examples": "; ".join(
                    f"{split}: {text}" if split else text
                    for split, (forget, retain) in item.sizes.items()
                    if (text := f"{forget:,} to forget, {retain:,} to retain")
                ),
                "forget class": f"{item.forget_class} (default) or another class" if item.forget_class else None,
                "hub": item.hub_id,
                "data-dir": f"{use}; must contain {item.files}" if item.files else None,
                "citation": item.citation,
                "yours": _source("data set", item.name),
            }
        )
    return rows


def _templates() -> list[dict[str, object]]:
    from trainables.models.registry import TEMPLATES

    return [
        {
            "name": item.name,
            "description": item.description,
            "text": item.text.replace("\n", "\\n") if item.text != item.name else None,
            "yours": _source("template", item.name),
        }
        for item in TEMPLATES.values()
    ]


def _source(kind: str, name: str) -> str | None:
    """Return the file of the plug-in that defines the name, or None if no plug-in defines it."""
    from trainables.plugins import owner

    plugin = owner(kind, name)
    return None if plugin is None else plugin.path
