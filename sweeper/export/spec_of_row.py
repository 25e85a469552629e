"""Reconstruct a trial's spec and command from the trial's row in trials.csv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.words import cell
from sweeper.settings.options import RunOptions
from sweeper.settings.sources import command_line, from_python
from sweeper.store.plugins import plugin_options
from trainables import plugins
from trainables.methods import option_names
from trainables.modality import dataset_modality
from trainables.spec import FIELDS, TrialSpec

_ALWAYS_INCLUDED = (
    "method", "model", "dataset", "lr", "seed", "batch_size", "eval_batch_size", "max_length", "lora_rank",
)  # fmt: skip
"""Fields that the command always includes, because their defaults depend on other fields."""


def spec_of_row(row: Mapping[str, Any]) -> TrialSpec:
    """Return the spec of the trial in a row of trials.csv."""
    values: dict[str, Any] = {}
    for name, field in FIELDS.items():
        value = cell(row.get(name))
        if value is None:
            if field.optional:  # other fields get their default values
                values[name] = None
        elif field.kind is bool:
            values[name] = str(value) in ("True", "1.0")
        elif field.many:
            values[name] = tuple(str(value).split(","))
        elif field.kind is str:  # a forget class named 3 is read as a number
            values[name] = f"{value:g}" if isinstance(value, int | float) else str(value)
        else:
            values[name] = field.kind(float(str(value)))
    cells = {name: cell(row.get(name)) for name in option_names()}
    options = {name: float(str(value)) for name, value in cells.items() if value is not None}
    return TrialSpec(**values, options=tuple(sorted(options.items())))


def unlearn_command(spec: TrialSpec, *, out: str = "DIR") -> str:
    """Return the command that repeats a trial with the active plug-ins.

    On the same CPU with the same number of threads, the results are bit-identical to those of the trial.
    """
    values, unused_names = spec.values(), dataset_modality(spec.dataset).unused_fields
    values_by_option: dict[str, Any] = {}
    for name, field in FIELDS.items():
        is_needed = name in _ALWAYS_INCLUDED or values[name] != field.default
        if field.flag and is_needed and name not in unused_names and field.has_effect(values):
            values_by_option[name] = _format_value(values[name])
    values_by_option["option"] = [f"{name}={_format_value(number)}" for name, number in spec.options]
    files = plugin_options({plugin.name: plugin.path for plugin in plugins.active()})
    values_by_option |= {"plugin": files["plugin"] + files["template"], "questions": files["questions"]}
    return command_line(RunOptions, from_python(RunOptions, {**values_by_option, "out": out}))


def _format_value(value: object) -> object:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) and value == float(f"{value:g}") else value
