"""Choose a checkpoint of a sweep, and copy, export or register the checkpoint."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.frontier.pareto_json import json_number, json_value
from analysis.report.pick import JudgedPick, judged_model, judged_pick
from analysis.report.render import render_line
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from analysis.words import model_name, number
from search_spaces.common.durable import staged
from search_spaces.common.messages import no_sweep
from search_spaces.constraint import parse_constraint
from sweeper.export.card import Card
from sweeper.export.export import export
from sweeper.export.stored_models import stored_model
from sweeper.settings.options import PickOptions
from sweeper.settings.pick_request import PickRequest
from sweeper.settings.reading import Problem, located, read
from sweeper.settings.sources import Problems, Raw, command_line, raise_if_any
from sweeper.settings.tracking_uri import uri_with_password
from sweeper.store.folder import read_origin, read_settings
from trainables.models.checkpoints import weights_problems
from trainables.models.weights import LoadError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """The chosen model, and how its metrics compare with the thresholds. ``pick`` prints the fields.

    Attributes:
        rule: the rule that chose the model, such as ``knee`` or ``maximize utility``; ``answer`` for the model that the
            report recommends, and ``trial`` for a model that the user named.
        checkpoint: the folder of the checkpoint, or None if no checkpoint was saved.
        outputs: the exported folder (``exported``) and the registered MLflow model version (``registered``), if any.
        notes: the messages of the export.
    """

    rule: str
    name: str
    checkpoint: Path | None
    out: Path
    pick: JudgedPick
    table: TrialTable
    sweep: SweepFile
    outputs: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        return self.checkpoint is not None and self.checkpoint.is_dir()

    @property
    def missing(self) -> str:
        """The error message for a checkpoint that does not exist."""
        return f"the checkpoint of {self.name} does not exist: {self.checkpoint or 'none was saved'}"

    @property
    def metrics(self) -> dict[str, float]:
        """The numbers in the model's row: losses, metrics, costs except durations, and progress (such as epochs)."""
        row: pd.Series = self.pick.row
        metrics = {}
        for column in map(str, row.index):
            is_outcome = self.table.columns[column].role in ("progress", "loss", "metric", "cost")
            is_position_or_duration = column in ("epoch", "step") or column.endswith("_seconds")
            is_number = not isinstance(row[column], str) and row[column] == row[column]  # NaN is not equal to itself
            if is_outcome and is_number and not is_position_or_duration:
                metrics[column] = float(row[column])
        return metrics

    @property
    def content(self) -> dict[str, Any]:
        """The JSON object that ``pick --json`` prints."""
        row, pick = self.pick.row, self.pick
        content = {
            "trial_id": row["trial_id"],
            "epoch": json_number(row["epoch"]),
            "spec_hash": row["spec_hash"],
            "rule": self.rule,
            "reason": pick.reason,
            "judgement": {"recommended": pick.recommended, "outcome": pick.outcome, "lines": pick.lines},
            "settings": {name: row[name] for name in self.table.spec_columns},
            "metrics": self.metrics,
            "checkpoint": str(self.checkpoint) if self.exists else None,
            "eligible": pick.eligible,
        }
        plain_content: Any = json_value(content)
        return {**plain_content, **self.outputs}


def choose(out: Path, raw: Raw, problems: Sequence[str] = ()) -> Choice:
    """Choose a model of a sweep. If requested, copy, export or register its checkpoint.

    Raises:
        Problems: the folder has no sweep, an option is invalid, or the checkpoint does not exist.
        AnalysisError, LoadError, RegistryError: a model cannot be chosen, exported or registered. A damaged checkpoint
            is a LoadError.
    """
    if not (out / "sweep.json").is_file():
        raise Problems([no_sweep(out)])
    options, found = read(PickOptions, raw, problems)
    request = PickRequest.of(options)
    delivery_problems = map(Problem, _delivery_problems(options, out))
    raise_if_any(located([*found, *request.problems, *delivery_problems], raw))
    rule, limits, best = request.rule, request.limits, request.best
    sweep = _read_sweep_with(out, options.constraint)
    table = TrialTable.read(out, sweep=sweep.name)
    if options.trial is not None:
        rule = "trial"
        row = stored_model(out, table, sweep, options.trial, options.epoch).row
        reason = render_line("pick.named", trial_id=options.trial, epoch=options.epoch)
        pick = judged_model(row, table, sweep, reason)
    else:
        pick = judged_pick(table, sweep, rule=rule, limits=limits, best=best, robust=options.robust)
    choice = Choice(
        rule=rule or ("robust" if options.robust else "answer") if best is None else best.words,
        name=model_name(pick.row, with_epoch=table.every_epoch),
        checkpoint=out / str(pick.row["checkpoint"]) if pick.row["checkpoint"] else None,
        out=out,
        pick=pick,
        table=table,
        sweep=sweep,
    )
    if options.copy_to is None and options.export is None and options.register is None:
        return choice
    if choice.checkpoint is None or not choice.exists:
        raise Problems([choice.missing])
    if damage := weights_problems(choice.checkpoint):
        raise LoadError(f"the checkpoint {choice.checkpoint} is damaged: {'; '.join(damage)}")
    return _deliver(choice, options, command=command_line(PickOptions, raw, str(out)))


def _read_sweep_with(out: Path, constraints: Sequence[str]) -> SweepFile:
    """Return the sweep with ``constraints`` added. They replace the sweep's own constraints on the same metrics."""
    sweep = SweepFile.read(out)
    replaced_metrics = {parse_constraint(text).name for text in constraints}
    remaining_constraints = [text for text in sweep.constraints if parse_constraint(text).name not in replaced_metrics]
    return replace(sweep, settings={**sweep.settings, "constraints": [*constraints, *remaining_constraints]})


def _deliver(choice: Choice, options: PickOptions, *, command: str) -> Choice:
    assert choice.checkpoint is not None
    outputs: dict[str, Any] = {}
    notes: tuple[str, ...] = ()
    if options.copy_to is not None:
        with staged(Path(options.copy_to)) as staging:
            shutil.copytree(choice.checkpoint, staging)
    if options.export is not None:
        folder = Path(options.export)
        judgement = choice.pick.lines
        card = Card(folder.name, choice.pick.row, choice.table, choice.sweep, judgement=judgement, pick_command=command)
        notes = tuple(export(choice.checkpoint, folder, card, merge=options.merge))
        outputs["exported"] = str(folder)
    if options.register is not None:
        outputs["registered"] = _register(choice, options, name=options.register)
    final_checkpoint = Path(options.copy_to) if options.copy_to else choice.checkpoint
    return replace(choice, checkpoint=final_checkpoint, outputs=outputs, notes=notes)


def _register(choice: Choice, options: PickOptions, *, name: str) -> dict[str, Any]:
    from sweeper.followers.mlflow.registry import Entry, register

    assert choice.checkpoint is not None
    row, pick = choice.pick.row, choice.pick
    metrics = {column: number(value) for column, value in choice.metrics.items()}
    entry = Entry(
        sweep_id=read_origin(choice.out).sweep_id,
        trial_id=str(row["trial_id"]),
        epoch=float(row["epoch"]),
        checkpoint=choice.checkpoint,
        out=choice.out,
        tags={"trial": choice.name, "spec_hash": row["spec_hash"], "outcome": pick.outcome, **metrics},
        description=f"{choice.name}: {pick.reason.removesuffix('.')}. {' '.join(pick.lines)}",
    )
    experiment = read_settings(choice.out).experiment
    uri = _tracking_uri(options, choice.out)
    return asdict(register(entry, uri=uri, experiment=experiment, name=name, alias=options.alias))


def _tracking_uri(options: PickOptions, out: Path) -> str:
    return options.tracking_uri or uri_with_password(read_settings(out).tracking_uri)


def _delivery_problems(options: PickOptions, out: Path) -> Iterator[str]:
    from sweeper.followers.mlflow.registry import registry_problems

    for flag, folder in (("--copy-to", options.copy_to), ("--export", options.export)):
        if folder is not None and Path(folder).exists():
            yield f"{flag} {folder}: this path exists already; name a new folder"
    if options.merge and options.export is None:
        yield "--merge needs --export DIR, the folder for the merged model"
    uri = _tracking_uri(options, out) if options.register is not None else ""
    yield from registry_problems(options.register, options.alias, uri)
