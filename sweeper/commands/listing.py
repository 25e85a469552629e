"""``list``: what there is to choose from."""

from __future__ import annotations

import json

import click

from sweeper.commands.errors import plain_errors

KINDS = ("methods", "models", "datasets")


@click.command(name="list")
@click.argument("kind", type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON on stdout.")
@plain_errors
def listing(kind: str, as_json: bool) -> None:
    """Say which methods, models or datasets there are."""
    rows = {"methods": _methods, "models": _models, "datasets": _datasets}[kind]()
    if as_json:
        click.echo(json.dumps(rows))
        return
    for row in rows:
        click.echo(str(row.pop("name")))
        for key, value in row.items():
            if value not in ("", [], None):
                click.echo(f"    {key}: {value}")


def _methods() -> list[dict[str, object]]:
    from trainables.methods import method_names, parse_method
    from trainables.objectives import ALIASES, Reference
    from trainables.weightings import Needs

    of_the_target = {
        Reference.SEQUENCE_NLL: "log-likelihoods, computed once",
        Reference.PAIR_NLL: "log-likelihoods, computed once",
        Reference.LOGITS: "logits, a forward pass per step",
        Reference.HIDDEN: "hidden states, a forward pass per step",
    }
    rows: list[dict[str, object]] = []
    for name in method_names():
        method = parse_method(name)
        two = method.weighting.needs is Needs.GRAMIAN
        rows.append(
            {
                "name": name,
                "also called": ", ".join(alias for alias, meant in ALIASES.items() if meant == name),
                "objective": f"{method.objective.name}: {method.objective.formula}",
                "weighting": f"{method.weighting.name}: {method.weighting.formula}",
                "options": ", ".join(
                    f"{option.name} (default {option.default:g}, from {option.low:g} to {option.high:g}: "
                    f"{option.description})"
                    for option in method.options.values()
                ),
                "needs of the target": of_the_target.get(method.objective.reference, ""),
                "gradient buffers": 2 if two else 1,
                "backward passes": 2 if two else 1,
                "citation": method.weighting.citation
                if "+" not in name and name != method.objective.name
                else method.objective.citation,
            }
        )
    return rows


def _models() -> list[dict[str, object]]:
    from trainables.models import MODELS

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
        }
        for item in MODELS.values()
    ]


def _datasets() -> list[dict[str, object]]:
    from trainables.data import DATASETS, FORGET_SPLITS, NEEDS_FOLDER, NEEDS_HUB

    return [
        {
            "name": name,
            "description": text,
            "forget splits": ", ".join(FORGET_SPLITS.get(name, ())),
            "hub": NEEDS_HUB.get(name),
            "data-dir": f"needed, with {NEEDS_FOLDER[name]}" if name in NEEDS_FOLDER else None,
        }
        for name, text in DATASETS.items()
    ]
