"""The model card: what the model is, what it scores, how to make it again. Hugging Face reads its front matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, finite_cell
from analysis.words import model_name, number
from sweeper.export.licence import Licence
from sweeper.export.spec_of_row import spec_of_row, unlearn_command
from trainables.data import DATASETS
from trainables.modality import dataset_modality
from trainables.models.registry import find_model
from trainables.spec import FIELDS, TrialSpec
from trainables.template import CHAT
from trainables.templates import TEMPLATES

WHOLE, ADAPTER, MERGED = "whole model", "LoRA adapter", "merged model"
"""What a folder holds."""


@dataclass(frozen=True, slots=True)
class Card:
    """What a card is written from: the ``row`` of the model taken, its sweep, and what the folder holds.

    ``judged`` is how the model stands against the thresholds, ``picked`` the command that took it; ``base`` is where
    the adapter's base lies.
    """

    name: str
    row: pd.Series
    table: TrialTable
    sweep: SweepFile
    judged: tuple[str, ...]
    picked: str
    kind: str = WHOLE
    base: str | None = None
    licence: Licence = field(default_factory=Licence)

    @property
    def spec(self) -> TrialSpec:
        """What the trial was asked to do."""
        return spec_of_row({str(name): value for name, value in self.row.items()})


def card_text(card: Card) -> str:
    """README.md of the folder."""
    parts = [
        _front_matter(card),
        f"# {card.name}\n",
        _what(card),
        "\n>\n".join(f"> {line}" for line in card.judged),
        "## Use\n",
        _use(card),
        "## Scores\n",
        _scores(card),
        "## Method and settings\n",
        _method(card),
        "## Data\n",
        _data(card.spec),
        "## Making it again\n",
        _again(card),
        "## Licence\n",
        card.licence.words,
    ]
    return "\n".join(part if part.endswith("\n") else f"{part}\n" for part in parts if part)


def _front_matter(card: Card) -> str:
    import yaml

    spec = card.spec
    hub_ids = find_model(spec.model).hub_id, DATASETS[spec.dataset].hub_id if spec.dataset in DATASETS else None
    content: dict[str, Any] = {
        "library_name": "peft" if card.kind == ADAPTER else "transformers",
        "pipeline_tag": dataset_modality(spec.dataset).task,
        "license": card.licence.name if card.licence.name else "other" if card.licence.files else "unknown",
        # Of an adapter the base is the fine-tuned target, which is on no hub.
        "base_model": hub_ids[0] if card.kind != ADAPTER else None,
        "datasets": [hub_ids[1]] if hub_ids[1] else None,
        "tags": ["machine-unlearning", spec.method, *(["lora"] if spec.lora_rank else [])],
    }
    said = {name: value for name, value in content.items() if value is not None}
    return f"---\n{yaml.safe_dump(said, sort_keys=False, allow_unicode=True)}---"


def _what(card: Card) -> str:
    spec = card.spec
    what = {WHOLE: "A", ADAPTER: "A LoRA adapter for a", MERGED: "A (LoRA adapter merged into the weights)"}[card.kind]
    split = ", ".join(filter(None, (spec.forget_split, spec.forget_class)))
    forgets = f"its forget set ({split})" if split else "its forget set"
    return (
        f"{what} {spec.model} that was fine-tuned on the data set {spec.dataset} and then unlearned {forgets} with "
        f"{spec.method}: {model_name(card.row, with_epoch=card.table.every_epoch)} of the sweep {card.sweep.name}. "
        "Unlearning lowers what a model tells of the data; it proves nothing about what can still be drawn out of it.\n"
    )


def _use(card: Card) -> str:
    if dataset_modality(card.spec.dataset).task == "image-classification":
        return (
            "```python\nfrom transformers import AutoImageProcessor, AutoModelForImageClassification\n\n"
            'model = AutoModelForImageClassification.from_pretrained("DIR")\n'
            'processor = AutoImageProcessor.from_pretrained("DIR")\n```\n'
        )
    needs = ""
    if card.kind == ADAPTER:
        needs = (
            f"peft must be installed, and the adapter's base, the fine-tuned model it was trained on, must lie where "
            f"`base_model_name_or_path` of adapter_config.json says: `{card.base}`. `pick --export DIR --merge` writes "
            "a model that needs neither.\n\n"
        )
    return (
        f"{needs}```python\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n\n"
        'model = AutoModelForCausalLM.from_pretrained("DIR")\ntokenizer = AutoTokenizer.from_pretrained("DIR")\n```\n\n'
        f"It was asked in this form: {_asked(card.spec)}.\n"
    )


def _asked(spec: TrialSpec) -> str:
    if spec.template is None:
        return f"`{find_model(spec.model).template!r}`"
    if spec.template == CHAT:
        return "the tokenizer's chat template, the question as the user's turn"
    return f"`{TEMPLATES[spec.template].text!r}`"


def _scores(card: Card) -> str:
    before, columns = card.sweep.baseline_of(card.row), card.sweep.columns
    rows = [
        (f"{columns.axis(name)}: `{name}`", number(before.get(name)), number(finite_cell(card.row, name)))
        for name in columns.outcomes
        if name in before or finite_cell(card.row, name) is not None
    ]
    return _table(("", "before (No-unlearn)", "after"), rows)


def _method(card: Card) -> str:
    spec, method = card.spec, card.spec.parsed_method
    citations = dict.fromkeys((method.objective.citation, method.weighting.citation))
    settings = {
        name: value
        for name, value in {**spec.row(), "epochs": spec.epochs}.items()
        if value is not None and name != "target_key" and (name not in FIELDS or FIELDS[name].has_effect(spec.values()))
    }
    done = {"steps taken": number(finite_cell(card.row, "steps")), "epochs taken": _epochs(card.row)}
    told: Mapping[str, object] = {**settings, **done, "content hash of the settings": card.row.get("spec_hash")}
    return (
        f"Objective `{method.objective.name}`: {method.objective.formula}. Weighting `{method.weighting.name}`: "
        f"{method.weighting.formula}. {'; '.join(filter(None, citations))}\n\n"
        + _table(("setting", "value"), [(name, f"`{value}`") for name, value in told.items()])
    )


def _epochs(row: pd.Series) -> str:
    epoch = finite_cell(row, "epoch")
    return number(epoch if epoch is not None else finite_cell(row, "epochs_done"))


def _data(spec: TrialSpec) -> str:
    known = DATASETS.get(spec.dataset)
    parts = [known.description, known.citation] if known is not None else [spec.dataset]
    return ". ".join(part.rstrip(".") for part in parts if part) + ". None of the data are in this folder.\n"


def _again(card: Card) -> str:
    spec, sweep = card.spec, card.sweep
    ended = finite_cell(card.row, "epoch") in (None, float(spec.epochs))
    lines = [*_fenced("The sweep, and the choice from it:", f"{sweep.command}\n{card.picked}".strip())]
    if ended:
        lines += _fenced("This run alone (on one CPU the same bits):", unlearn_command(spec))
    else:
        epochs = f"after {_epochs(card.row)} of {spec.epochs} epochs"
        lines += _fenced(f"The run it is of, {epochs}:", unlearn_command(spec))
    versions = ", ".join(f"{name} {version}" for name, version in sweep.versions.items())
    return "\n".join([*lines, f"Versions: {versions or 'not recorded'}.{_commit(sweep)}\n"])


def _commit(sweep: SweepFile) -> str:
    return f" Commit {sweep.commit}." if sweep.commit else ""


def _fenced(what: str, text: str) -> Iterator[str]:
    yield f"{what}\n\n```sh\n{text}\n```\n"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(cells)} |\n" for cells in escaped)
