"""Render the model card of an exported model."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import cell, model_name, number
from sweeper.export.licence import Licence
from sweeper.export.spec_of_row import spec_of_row, unlearn_command
from trainables.data import DATASETS
from trainables.modality import dataset_modality
from trainables.models.registry import TEMPLATES, find_model
from trainables.spec import FIELDS, TrialSpec
from trainables.template import CHAT

WHOLE, ADAPTER, MERGED = "whole model", "LoRA adapter", "merged model"
"""The kinds of models that an exported folder can contain."""


@dataclass(frozen=True, slots=True)
class Card:
    """The fields of a model card, which the template card.md.j2 reads.

    Attributes:
        row: the model's row in trials.csv or candidates.csv.
        judgement: sentences that compare the model's metrics with the thresholds.
        pick_command: the ``pick`` command that chose the model.
        kind: what the folder contains: ``WHOLE`` (a model), ``ADAPTER``, or ``MERGED`` (an adapter and its base model).
        base: the path or hub id of the adapter's base model, or "" if no adapter was trained.
    """

    name: str
    row: pd.Series
    table: TrialTable
    sweep: SweepFile
    judgement: tuple[str, ...]
    pick_command: str
    kind: str = WHOLE
    base: str = ""
    licence: Licence = field(default_factory=Licence)

    @property
    def spec(self) -> TrialSpec:
        """The trial's settings. For a merged model, the method is the default, which is not used."""
        row = {str(name): value for name, value in self.row.items()}
        return spec_of_row({**row, "method": FIELDS["method"].default} if self.merges else row)

    @property
    def merges(self) -> str:
        """The trials and folders whose models are merged, separated by commas; "" if the model is not merged."""
        return str(cell(self.row.get("merges")) or "")

    @property
    def merge_command(self) -> str:
        """The command that merges the model again."""
        words = ["merge", str(self.row["folder"]), "--rule", str(self.row["method"])]
        for name in self.merges.split(","):
            words += ["--finetuned" if Path(name).is_absolute() else "--trial", name]
        if checkpoint := cell(self.row.get("merge_checkpoint")):
            words += ["--checkpoint", str(checkpoint)]
        return f"python -m sweeper {shlex.join([*words, '--scale', str(cell(self.row.get('merge_scale')))])}"


def card_text(card: Card) -> str:
    import yaml
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    spec, method = card.spec, card.spec.parsed_method
    task, dataset = dataset_modality(spec.dataset).task, DATASETS.get(spec.dataset)
    data = (spec.dataset,) if dataset is None else (dataset.description, dataset.citation)
    citations = [text for text in (method.objective.citation, method.weighting.citation) if text]
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    epoch = finite_cell(card.row, "epoch")
    is_last_epoch = epoch is None or epoch == spec.epochs
    return environment.get_template("card.md.j2").render(
        card=card,
        spec=spec,
        method=method,
        method_name=str(card.row["method"]),
        merge_scale=number(cell(card.row.get("merge_scale"))),
        licence=card.licence,
        task=task,
        front_matter=yaml.safe_dump(_front_matter(card, task), sort_keys=False, allow_unicode=True),
        model=model_name(card.row, with_epoch=card.table.every_epoch),
        split=[name for name in (spec.forget_split, spec.forget_class) if name],
        template=None if spec.template == CHAT else repr(_template(spec)),
        scores=_scores(card),
        settings=_settings(card),
        citations=list(dict.fromkeys(citations)),  # each publication once
        data=[text.rstrip(".") for text in data if text],
        command=unlearn_command(spec),
        epoch=None if is_last_epoch else number(epoch),
    )


def _front_matter(card: Card, task: str) -> dict[str, Any]:
    spec, licence = card.spec, card.licence
    data_hub_id = DATASETS[spec.dataset].hub_id if spec.dataset in DATASETS else None
    content = {
        "library_name": "peft" if card.kind == ADAPTER else "transformers",
        "pipeline_tag": task,
        "license": licence.name or ("other" if licence.files else "unknown"),
        # An adapter's base is the fine-tuned target, which is not on the hub.
        "base_model": find_model(spec.model).hub_id if card.kind != ADAPTER else None,
        "datasets": None if data_hub_id is None else [data_hub_id],
        "tags": ["machine-unlearning", str(card.row["method"])] + (["lora"] if spec.lora_rank else []),
    }
    return {name: value for name, value in content.items() if value is not None}


def _template(spec: TrialSpec) -> str:
    return TEMPLATES[spec.template].text if spec.template else find_model(spec.model).template


def _scores(card: Card) -> list[tuple[str, str, str, str]]:
    """Return (axis label, name, value for the target, value for the model) for each metric that was measured."""
    baseline, columns = card.sweep.baseline_of(card.row), card.sweep.columns
    return [
        (columns.axis(name), name, number(baseline.get(name)), number(finite_cell(card.row, name)))
        for name in columns.outcomes
        if name in baseline or finite_cell(card.row, name) is not None
    ]


def _settings(card: Card) -> dict[str, object]:
    spec = card.spec
    values = spec.values()
    settings: dict[str, object] = {}
    for name, value in {**spec.row(), "epochs": spec.epochs}.items():
        has_effect = name not in FIELDS or FIELDS[name].has_effect(values)
        if value is not None and has_effect and name != "target_key":
            settings[name] = value
    epoch = finite_cell(card.row, "epoch")
    return settings | {
        "steps taken": number(finite_cell(card.row, "steps")),
        "epochs taken": number(finite_cell(card.row, "epochs_done") if epoch is None else epoch),
        "content hash of the settings": card.row.get("spec_hash"),
    }
