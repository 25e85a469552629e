"""Check which models of a sweep are merged, before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.tables.sweep_file import SweepFile
from analysis.tables.trial_table import TrialTable, is_search
from search_spaces.common.messages import expected_one_of, no_sweep, some_of
from sweeper.settings.names import STUDY
from sweeper.settings.options import MergeOptions
from sweeper.settings.reading import Problem, about
from sweeper.store.events import Merge
from sweeper.store.folder import UsageError, read_origin
from sweeper.store.tables import ResultTables
from trainables.models.merging import RULES, is_adapter
from trainables.storage import is_address


def planned_merge(options: MergeOptions, out: Path) -> tuple[Merge, list[Problem]]:
    """Return what the command ``merge`` merges in the sweep in ``out``, and the problems with it.

    Raises:
        UsageError, AnalysisError: a file of the sweep cannot be read.
    """
    if not (out / "sweep.json").is_file():
        raise UsageError(no_sweep(out))
    problems: list[Problem] = []
    if options.rule not in RULES:
        problems += about("rule", f"--rule {options.rule}: {expected_one_of(options.rule, tuple(RULES))}")
    settings = SweepFile.read(out).settings
    if settings.get("kind") == STUDY:
        problems.append(
            Problem(
                f"the sweep in {out} is a learning-rate study, whose models are not merged: each belongs to one rate"
            )
        )
    stored = _stored(out, in_bucket=is_address(settings.get("storage") or ""))
    wanted = tuple(dict.fromkeys(options.trial)) or (() if options.finetuned else tuple(stored))
    unknown = [name for name in wanted if name not in stored]
    if unknown:
        existing = some_of(list(stored)) if stored else "none"
        text = f"--trial {', '.join(unknown)}: no finished trial with a stored last model; such trials are: {existing}"
        problems += about("trial", text)
    trials = {name: stored[name] for name in wanted if name in stored}
    finetuned = tuple(Path(name).resolve() for name in options.finetuned)
    checkpoint = Path(options.checkpoint).resolve() if options.checkpoint else None
    for flag, folders in (("finetuned", finetuned), ("checkpoint", [checkpoint] if checkpoint else [])):
        missing = [path for path in folders if not (path / "config.json").is_file() and not is_adapter(path)]
        problems += about(flag, *(f"--{flag} {path}: no model in this folder" for path in missing))
    if checkpoint and not finetuned:
        problems += about(
            "checkpoint",
            "--checkpoint is the model from which the models of --finetuned started, so give --finetuned, too",
        )
    problems += map(Problem, _mixed(trials, finetuned))
    # The negated vector of one fine-tuned model is task arithmetic, not a merge.
    if len(trials) + len(finetuned) < 2 and not finetuned and not unknown:
        text = f"the sweep in {out} has {some_of(list(stored)) if stored else 'none'}"
        problems.append(Problem(f"a merge needs at least two trials with a stored last model; {text}"))
    if others := _with_other_target(out, trials):
        names = some_of(others)
        text = f"the trials {names} unlearn another target than the sweep's first: leave them out with --trial"
        problems.append(Problem(text))
    merge = Merge(
        rule=options.rule,
        trials=tuple(trials),
        scale=options.scale,
        finetuned=tuple(map(str, finetuned)),
        checkpoint=str(checkpoint or ""),
    )
    return merge, problems


def _stored(out: Path, *, in_bucket: bool) -> dict[str, Path]:
    """Return the folder of the last model of each finished trial of the search, by trial id.

    If the sweep stores its models in a bucket, the folders of some models do not exist on this machine.
    """
    rows = TrialTable.read(out).finished
    rows = rows[is_search(rows)]
    paths = [out / str(path) if path else None for path in rows["checkpoint"]]
    stored = zip(map(str, rows["trial_id"]), paths, strict=True)
    return {name: path for name, path in stored if path is not None and (in_bucket or path.is_dir())}


def _with_other_target(out: Path, trials: Mapping[str, Path]) -> list[str]:
    """Return the ids of the trials whose task vectors do not start at the first target of the sweep."""
    target_key = read_origin(out).target_key
    rows = ResultTables(out).trials.read()
    return [row["trial_id"] for row in rows if row["trial_id"] in trials and row.get("target_key") != target_key]


def _mixed(trials: Mapping[str, Path], finetuned: Sequence[Path]) -> list[str]:
    """Return a message if some models are LoRA adapters and others have all weights, among the local models."""
    folders = {f"trial {name}": path for name, path in trials.items() if path.is_dir()}
    folders |= {str(path): path for path in finetuned}
    adapters = [name for name, path in folders.items() if is_adapter(path)]
    whole = [name for name in folders if name not in adapters]
    if not (adapters and whole):
        return []
    return [
        f"LoRA and full models cannot be merged: {some_of(adapters)} trained a LoRA adapter, and {some_of(whole)} "
        "trained all weights; give --trial for models of one kind"
    ]
