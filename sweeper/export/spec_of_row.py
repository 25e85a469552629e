"""Reconstruct a trial's spec and command from the trial's row in trials.csv."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from analysis.words import cell
from trainables import plugins
from trainables.methods import option_names
from trainables.modality import dataset_modality
from trainables.spec import FIELDS, TrialSpec

_ALWAYS = (
    *("method", "model", "dataset", "lr", "seed", "batch_size", "eval_batch_size", "max_length", "lora_rank"),
    "auto_lr_probe_batches",
)
"""Fields that the command always includes, because their defaults depend on other fields."""


def spec_of_row(row: Mapping[str, Any]) -> TrialSpec:
    """Return the spec of the trial in a row of trials.csv."""
    values: dict[str, Any] = {}
    for name, item in FIELDS.items():
        value = cell(row.get(name))
        if value is None:
            if item.optional:  # other fields get their default values
                values[name] = None
        elif item.kind is bool:
            values[name] = str(value) in ("True", "1.0")
        elif item.many:
            values[name] = tuple(str(value).split(","))
        elif item.kind is str:  # a forget class named 3 is read as a number
            values[name] = f"{value:g}" if isinstance(value, int | float) else str(value)
        else:
            values[name] = item.kind(float(str(value)))
    cells = {name: cell(row.get(name)) for name in option_names()}
    options = {name: float(str(value)) for name, value in cells.items() if value is not None}
    return TrialSpec(**values, options=tuple(sorted(options.items())))


def unlearn_command(spec: TrialSpec, *, out: str = "DIR") -> str:
    """Return the command that repeats a trial with the active plug-ins. On one CPU, the results are bit-identical."""
    files = [word for plugin in plugins.active() for word in ("--plugin", plugin.place)]
    return shlex.join(["python", "-m", "sweeper", "unlearn", *files, *_flags(spec), "--out", out])


def _flags(spec: TrialSpec) -> Iterator[str]:
    values = spec.values()
    unused = dataset_modality(spec.dataset).unused_fields
    for name, item in FIELDS.items():
        value = values[name]
        if not item.flag or name in unused or not item.has_effect(values):
            continue
        if name not in _ALWAYS and value == item.default:
            continue
        if item.kind is bool:
            yield item.flag if value else f"--no-{item.flag.removeprefix('--')}"
        elif item.many:
            yield from (item.flag, ",".join(value))  # type: ignore[arg-type]
        else:
            yield from (item.flag, _text(value))
    for name, number in spec.options:
        yield from ("--option", f"{name}={_text(number)}")


def _text(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) and value == float(f"{value:g}") else str(value)
