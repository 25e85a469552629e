"""The folder of a sweep and the file sweep.json, which contains all settings of the sweep."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from analysis.tables.sweep_file import FORMAT
from search_spaces.common.durable import write_json
from search_spaces.common.messages import no_sweep
from sweeper.settings.objectives import with_bounds
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.store.columns import column_dictionary
from sweeper.store.event_log import FILE as LOG
from sweeper.store.plugins import plugin_records, save_plugins
from sweeper.store.version import __version__, commit
from trainables.modality import dataset_modality
from trainables.storage import is_address
from trainables.target.target import Target

_VERSIONS = ("torch", "ray", "transformers", "optuna", "mlflow", "peft", "datasets", "moocore")


class SweepError(RuntimeError):
    """The sweep cannot start or continue. The message is for the user."""

    exit_code = 1


class UsageError(SweepError):
    """The command cannot use the folder of the sweep, for example because a file is damaged."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Origin:
    """The id and the target of a sweep. Before the target is prepared, ``target_key`` and ``target_path`` are None."""

    sweep_id: str
    created: str
    target_key: str | None = None
    target_path: str | None = None


def begin(settings: SweepSettings, out: Path) -> None:
    """Create the folder of a new sweep. The command ``resume`` can then run the sweep."""
    if (out / "sweep.json").exists():
        raise UsageError(f"{out} already contains a sweep")
    out.mkdir(parents=True, exist_ok=True)
    (out / "checkpoints").mkdir(exist_ok=True)
    created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    origin = Origin(uuid.uuid4().hex, created)
    if is_address(settings.storage):
        settings = replace(settings, stored_as=f"{out.resolve().name}-{origin.sweep_id[:8]}")
    save_plugins(out)
    write_sweep_json(out, settings, origin)


def discard(out: Path) -> None:
    """Delete the folder of a sweep that could not start. A folder with an event log is kept."""
    if not (out / LOG).is_file():
        shutil.rmtree(out, ignore_errors=True)


def read_settings(out: Path) -> SweepSettings:
    """Return the settings of a sweep.

    Raises:
        UsageError: the folder has no sweep, or sweep.json cannot be read.
    """
    path = out / "sweep.json"
    if not path.is_file():
        raise UsageError(no_sweep(out))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise UsageError(
                f"{path} has format {content['format']}, but this version reads only format {FORMAT}. Start a new sweep"
            )
        settings = SweepSettings.from_dict(content["settings"])
        _ = settings.parsed_objectives
    except KeyError as error:
        raise UsageError(
            f"cannot read {path}: the key {error} is missing; the file is damaged or from another version"
        ) from None
    except (ValueError, TypeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from None
    return settings


def read_origin(out: Path) -> Origin:
    """Return the id, the start time and the target of a sweep from sweep.json."""
    content = json.loads((out / "sweep.json").read_text(encoding="utf-8"))
    target = content["target"] or {}
    return Origin(content["sweep_id"], content["created"], target.get("key"), target.get("path"))


def write_sweep_json(
    out: Path, settings: SweepSettings, origin: Origin, *, targets: Mapping[int, Target] = MappingProxyType({})
) -> None:
    """Write sweep.json.

    ``targets`` maps each seed to its target model. Without targets, the entries about the target are None. With several
    targets, the entry ``baseline`` has the mean of the metrics of the targets of the search.
    """
    target = next(iter(targets.values()), None)
    searched = [item for seed, item in targets.items() if seed in settings.all_seeds]
    unit = dataset_modality(settings.base.dataset).unit
    guess = math.log(target.vocabulary_size) if target is not None else None
    objectives = None
    if guess is not None:
        objectives = [item.to_dict() for item in with_bounds(settings.parsed_objectives, guess, unit=unit)]
    package_versions = {name: importlib.metadata.version(name) for name in _VERSIONS}
    content = {
        "format": FORMAT,
        "sweep_id": origin.sweep_id,
        "name": settings.name,
        "created": origin.created,
        "command": settings.command,
        "commit": commit(),
        "versions": {"unlearning-sweeper": __version__, **package_versions},
        "plugins": plugin_records(),
        "settings": settings.to_dict(),
        "objectives": objectives,
        "columns": column_dictionary(random_guess=guess, unit=unit),
        "random_guess_loss": guess,
        "vocabulary_size": target.vocabulary_size if target is not None else None,
        "baseline": _mean([item.baseline for item in searched]) or None,
        "baselines": {str(seed): item.baseline for seed, item in targets.items()} if len(targets) > 1 else None,
        "never_saw": _mean([item.retain.metrics if item.retain else {} for item in searched]) or None,
        "items": dict(target.item_counts) if target is not None else None,
        "target": {"key": target.key, "path": target.path} if target is not None else None,
    }
    for item in targets.values():
        never_saw = item.retain.answers if item.retain else {}
        for name, answers in (("target", item.answers), ("never-saw", never_saw)):
            if answers:
                write_json(out / "items" / f"{name}-{item.key}.json", answers, indent=None)
    write_json(out / "sweep.json", content)


def _mean(baselines: Sequence[Mapping[str, float]]) -> dict[str, float]:
    first, others = (baselines[0], baselines[1:]) if baselines else ({}, ())
    shared = [name for name in first if all(name in other for other in others)]
    return {name: math.fsum(item[name] for item in baselines) / len(baselines) for name in shared}
