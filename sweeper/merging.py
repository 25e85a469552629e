"""Merge stored models of a finished sweep into one model, and measure it like the models of the sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from analysis.report.pick import JudgedPick, judged_model
from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable
from search_spaces.common.durable import write_json
from search_spaces.common.messages import expected_one_of, no_sweep, some_of
from sweeper.checks.world import output_problems
from sweeper.execution.target_task import progress_shown
from sweeper.execution.threads import use_free_threads
from sweeper.settings.options import MergeOptions
from sweeper.settings.reading import located, read
from sweeper.settings.sources import Problems, Raw, raise_if_any
from sweeper.store.folder import read_origin, read_settings
from sweeper.store.tables import ResultTables
from trainables.modality import dataset_modality
from trainables.models.merging import RULES, Models, is_adapter, write_merged_model
from trainables.scoring.item_log import write_item_log
from trainables.target.prepare import score_checkpoint

PLAN = "merge.json"
MERGED = "merged"
"""The phase of a merged model in metrics.json, and the beginning of its trial id."""


@dataclass(frozen=True, slots=True)
class Merge:
    """What is merged: the folders of the target and of the models. ``trials`` maps trial ids to folders."""

    out: Path
    target: Path
    trials: Mapping[str, Path]
    finetuned: tuple[Path, ...]
    rule: str
    scale: float

    def to_dict(self) -> dict[str, object]:
        """Return the content of merge.json, which says what the folder ``out`` merges."""
        models = {"trials": {name: str(path) for name, path in self.trials.items()}}
        return {"rule": self.rule, "scale": self.scale, **models, "finetuned": list(map(str, self.finetuned))}

    @property
    def is_begun(self) -> bool:
        """Whether the folder ``out`` holds this merge, which may be unfinished."""
        try:
            content = json.loads((self.out / PLAN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return False
        return bool(content == self.to_dict())


def planned_merge(folder: Path, raw: Raw, problems: Sequence[str] = ()) -> Merge:
    """Return what the command ``merge`` merges. Nothing is written.

    Raises:
        Problems: the folder or the options are invalid. The exception lists all problems.
    """
    if not (folder / "sweep.json").is_file():
        raise Problems([no_sweep(folder)])
    options, found = read(MergeOptions, raw, problems)
    texts = located(found, raw)
    if options.rule not in RULES:
        texts.append(f"--rule {options.rule}: {expected_one_of(options.rule, tuple(RULES))}")
    if options.out is None:
        texts.append("--out DIR is missing: the folder for the merged model and its metrics")
    stored = _stored(folder)
    wanted = options.trial or (() if options.finetuned else tuple(stored))
    unknown = [name for name in wanted if name not in stored]
    if unknown:
        existing = some_of(list(stored)) if stored else "none"
        texts.append(f"--trial {', '.join(unknown)}: no stored last model; trials with one: {existing}")
    trials = {name: stored[name] for name in wanted if name in stored}
    finetuned = tuple(Path(name) for name in options.finetuned)
    texts += [f"--finetuned {path}: no model in this folder" for path in finetuned if not _is_model(path)]
    texts += _mixed(trials, finetuned)
    origin = read_origin(folder)
    target = origin.target_path
    if len(trials) + len(finetuned) == 0 and not unknown:
        texts.append(f"the sweep in {folder} has no stored models to merge")
    if target is None or not Path(target).is_dir():
        texts.append(f"the target of the sweep in {folder} does not exist on this machine: {target or 'not made yet'}")
    if others := _with_other_target(folder, trials, origin.target_key):
        names = some_of(others)
        texts.append(f"the trials {names} unlearn another target than the sweep's first: leave them out with --trial")
    plan = Merge(Path(options.out or ""), Path(str(target)), trials, finetuned, options.rule, options.scale)
    if options.out and not plan.is_begun:
        texts += output_problems(options.out)
    raise_if_any(texts)
    return plan


def _stored(folder: Path) -> dict[str, Path]:
    rows = TrialTable.read(folder).finished
    paths = {
        str(name): folder / str(path) for name, path in zip(rows["trial_id"], rows["checkpoint"], strict=True) if path
    }
    return {name: path for name, path in paths.items() if path.is_dir()}


def _with_other_target(folder: Path, trials: Mapping[str, Path], target_key: str | None) -> list[str]:
    """Return the ids of the trials whose task vectors do not start at the target with this key."""
    rows = ResultTables(folder).trials.read()
    return [row["trial_id"] for row in rows if row["trial_id"] in trials and row.get("target_key") != target_key]


def _is_model(folder: Path) -> bool:
    return (folder / "config.json").is_file() or is_adapter(folder)


def _mixed(trials: Mapping[str, Path], finetuned: Sequence[Path]) -> list[str]:
    """Return a message if some models are LoRA adapters and others have all weights."""
    folders = {f"trial {name}": path for name, path in trials.items()} | {str(path): path for path in finetuned}
    adapters = [name for name, path in folders.items() if is_adapter(path)]
    whole = [name for name in folders if name not in adapters]
    if not (adapters and whole):
        return []
    return [
        f"LoRA and full models cannot be merged: {some_of(adapters)} trained a LoRA adapter, and {some_of(whole)} "
        "trained all weights; give --trial for models of one kind"
    ]


def merge(folder: Path, plan: Merge, *, console: Console) -> dict[str, Any]:
    """Write the merged model to ``plan.out/checkpoint``, measure it, and write metrics.json and items.json.

    If the merged model exists already, it is only measured. The result is the content of metrics.json, which has the
    columns of trials.csv, with the phase ``merged``.
    """
    use_free_threads()
    settings = read_settings(folder)
    modality = dataset_modality(settings.base.dataset)
    checkpoint = plan.out / "checkpoint"
    if not checkpoint.is_dir():
        plan.out.mkdir(parents=True, exist_ok=True)
        write_json(plan.out / PLAN, plan.to_dict())
        write_merged_model(
            checkpoint,
            Models(plan.target, list(plan.trials.values()), plan.finetuned),
            rule=plan.rule,
            scale=plan.scale,
            load=modality.load_model,
            processor=modality.load_processor(plan.target),
        )
    spec = replace(settings.base, target_path=str(checkpoint))
    with progress_shown(spec, console, first="scoring the merged model") as (show, _):
        scores = score_checkpoint(spec, target=plan.target, on_progress=show)
    write_item_log(plan.out / "items.json", scores.items)
    row = {
        "trial_id": f"{MERGED}-{plan.rule}",
        "phase": MERGED,
        "method": plan.rule,
        "model": settings.base.model,
        "dataset": settings.base.dataset,
        "seed": settings.base.seed,
        "status": "finished",
        "merged_trials": ",".join(plan.trials),
        "merged_finetuned": ",".join(map(str, plan.finetuned)),
        "scale": plan.scale,
        "checkpoint": "checkpoint",
        **scores.metrics,
    }
    write_json(plan.out / "metrics.json", row)
    return row


def judgement(folder: Path, row: Mapping[str, Any]) -> JudgedPick:
    """Compare a merged model with the criterion of the sweep in ``folder``."""
    sweep = SweepFile.read(folder)
    table = TrialTable.read(folder, sweep=sweep.name)
    return judged_model(pd.Series({"sweep": sweep.name, **row}), table, sweep, "")
