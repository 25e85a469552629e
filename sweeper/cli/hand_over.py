"""What is done with the checkpoint that ``pick`` takes: copied, exported, registered."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.durable import staged

if TYPE_CHECKING:
    import pandas as pd

    from analysis.report.choice import ChoiceJudged, Taken
    from analysis.tables.sweep_file import SweepFile
    from analysis.tables.trial_table import TrialTable
    from sweeper.followers.mlflow.registry import Registered

_OPTIONS = ("copy_to", "export", "register")


@dataclass(frozen=True, slots=True)
class Model:
    """The model taken: its ``name`` in words, its folder, and the sweep ``out`` it is of."""

    name: str
    checkpoint: Path
    out: Path
    found: Taken
    judgement: ChoiceJudged
    table: TrialTable
    sweep: SweepFile


@dataclass(frozen=True, slots=True)
class HandedOver:
    """What to tell of it, for people and for machines."""

    lines: tuple[str, ...] = ()
    content: Mapping[str, Any] = field(default_factory=dict)


def is_handed_over(given: Mapping[str, Any]) -> bool:
    """Whether an option needs the checkpoint."""
    return any(given[name] is not None for name in _OPTIONS)


def hand_over(model: Model, given: Mapping[str, Any], *, command: str) -> HandedOver:
    """Do what the options say; ``command`` is what was typed, for the model card.

    Raises:
        Problems, LoadError, RegistryError: with a plain sentence.
    """
    lines: list[str] = []
    content: dict[str, Any] = {}
    if given["copy_to"] is not None:
        with staged(Path(given["copy_to"])) as staging:
            shutil.copytree(model.checkpoint, staging)
    if given["export"] is not None:
        lines += _exported(model, Path(given["export"]), merge=given["merge"], command=command)
        content["exported"] = str(given["export"])
    if given["register"] is not None:
        registered = _registered(model, given)
        lines.append(f"registered: {registered.uri} (version {registered.version}, of run {registered.run_id})")
        content["registered"] = asdict(registered)
    return HandedOver(tuple(lines), content)


def hand_over_problems(given: Mapping[str, Any], out: Path) -> Iterator[str]:
    """What is wrong with the options, told before anything is done."""
    from sweeper.followers.mlflow.registry import registry_problems

    for name in ("copy_to", "export"):
        if given[name] is not None and Path(given[name]).exists():
            yield f"--{name.replace('_', '-')} {given[name]}: this exists already; name a new folder"
    if given["merge"] and given["export"] is None:
        yield "--merge goes with --export DIR: the merged model is written there"
    if given["register"] is None or (out / "sweep.json").is_file():
        yield from registry_problems(given["register"], given["alias"], _tracking_uri(given, out))


def measured_of(row: pd.Series, table: TrialTable) -> dict[str, float]:
    """What was measured of a model, and its cost, but for times."""
    return {
        column: float(row[column])
        for column in map(str, row.index)
        if table.columns[column].role in ("progress", "loss", "metric", "cost") and not column.endswith("_seconds")
        if column not in ("epoch", "step") and not isinstance(row[column], str) and row[column] == row[column]
    }


def _exported(model: Model, folder: Path, *, merge: bool, command: str) -> Iterator[str]:
    from sweeper.export.card import Card
    from sweeper.export.export import export

    card = Card(folder.name, model.found.row, model.table, model.sweep, judged=model.judgement.lines, picked=command)
    return export(model.checkpoint, folder, card, merge=merge)


def _registered(model: Model, given: Mapping[str, Any]) -> Registered:
    from analysis.words import number
    from sweeper.followers.mlflow.registry import Entry, register
    from sweeper.store.folder import read_origin, read_settings

    row = model.found.row
    metrics = {column: number(value) for column, value in measured_of(row, model.table).items()}
    entry = Entry(
        sweep_id=read_origin(model.out).sweep_id,
        trial_id=str(row["trial_id"]),
        epoch=f"{row['epoch']:g}" if model.checkpoint.name != row["trial_id"] else None,
        checkpoint=model.checkpoint,
        out=model.out,
        tags={"trial": model.name, "spec_hash": row["spec_hash"], "outcome": model.judgement.outcome, **metrics},
        description=f"{model.name}: {model.found.reason}. {' '.join(model.judgement.lines)}",
    )
    uri, experiment = _tracking_uri(given, model.out), read_settings(model.out).experiment
    return register(entry, uri=uri, experiment=experiment, name=given["register"], alias=given["alias"])


def _tracking_uri(given: Mapping[str, Any], out: Path) -> str:
    from sweeper.settings.tracking_uri import known_uri
    from sweeper.store.folder import read_settings

    if given["tracking_uri"] or given["register"] is None:
        return str(given["tracking_uri"])
    return known_uri(read_settings(out).tracking_uri)
