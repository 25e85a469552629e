"""Format numbers, durations and names of trials for figures and reports."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

PROBE_BATCHES = "auto_lr_probe_batches"


@dataclass(frozen=True, slots=True)
class DataTable:
    """A table of formatted cells for a page or a terminal. The first column is text."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def number(value: object) -> str:
    """Format a number with at most three significant digits, such as 0.0413, 1.6e-4 or 0.5.

    None and NaN become an en dash. Trailing zeros are kept only if the number was rounded (7.60).
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value) if value not in (None, "") else "–"
    if isinstance(value, int):
        return str(value)
    if math.isnan(value):
        return "–"
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    exponent = math.floor(math.log10(abs(value)))
    if -3 <= exponent < 5:
        text = f"{value:.{max(0, 2 - exponent)}f}"
        # Keep trailing zeros of a rounded measurement, but not those of an exact setting such as 0.5.
        return text.rstrip("0").rstrip(".") if "." in text and float(text) == value else text
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"


def duration(seconds: float | None) -> str:
    """Format seconds as ``2 h 05 min``, ``3 min 20 s`` or ``12.5 s``. None and NaN become an en dash."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_seconds:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def model_name(row: pd.Series, *, with_epoch: bool) -> str:
    """Return the name of a model, such as ``trial 00007`` or ``trial 00007 after epoch 3``."""
    name = f"trial {row['trial_id']}"
    epoch = cell(row.get("epoch"))
    return f"{name} after epoch {number(epoch)}" if with_epoch and epoch is not None else name


def format_settings(row: pd.Series, varying: Sequence[str]) -> str:
    """Return the settings of a trial as text, such as ``gdiff, c 0.44, lr 2e-4``."""
    excluded = {"method", "lr", "auto_lr", *_variant_columns(row)}
    settings = {name: cell(row.get(name)) for name in varying if name not in excluded}
    texts = [_method(row)]
    texts += [f"{name} {number(value)}" for name, value in settings.items() if value is not None]
    if cell(row["lr"]) is not None:
        texts.append(format_learning_rate(row))
    return ", ".join(texts)


def trial_name(row: pd.Series) -> str:
    """Return the legend entry of a trial, such as ``gdiff, c 0.5, lr 1e-4 (00003)``."""
    return f"{format_settings(row, ['c'])} ({row['trial_id']})"


def format_learning_rate(row: pd.Series) -> str:
    """Return the learning rate of a trial as text, such as ``lr 1e-4`` or ``AutoLR gen/same from lr 1e-4``."""
    if str(row.get("auto_lr", "off")) in ("off", ""):
        return f"lr {number(cell(row['lr']))}"
    return format_policy(auto_lr_variant(row), cell(row["lr"]))


def format_policy(variant: str, lr: object) -> str:
    """Return text such as ``AutoLR gen/same from lr 1e-4``."""
    start = "" if lr is None else f"from lr {number(lr)}"
    return " ".join(word for word in ("AutoLR", variant, start) if word)


def auto_lr_variant(row: pd.Series, extra_columns: Sequence[str] = ()) -> str:
    """Return the variant of AutoLR: rule and probe, such as ``gen/same``, then the values of ``extra_columns``.

    In ``curvature/freshx4``, each probe uses four batches. In a table of another program, ``auto_lr`` may be ``on``
    instead of the name of a rule.
    """
    names = [*(["auto_lr"] if str(row["auto_lr"]) != "on" else []), *_variant_columns(row), *extra_columns]
    values = [cell(row.get(name)) for name in names]
    batches = cell(row.get(PROBE_BATCHES))
    # The same rule is a different variant if it probes with a different number of batches.
    suffix = f"x{batches:g}" if isinstance(batches, (int, float)) and batches > 1 else ""
    words = (f"{value}{suffix}" if value == "fresh" else str(value) for value in values if value is not None)
    return "/".join(words)


def cell(value: object) -> Hashable:
    """Return a table cell as a Python value. A missing cell becomes None, so missing cells are equal."""
    item = getattr(value, "item", None)
    python_value: Hashable = item() if callable(item) else value
    return None if python_value == "" or python_value != python_value else python_value


def rounded_cell(value: object) -> Hashable:
    """Return the result of :func:`cell`, with floats rounded to nine digits, so that 0.0003 equals 3 * 0.0001."""
    python_value = cell(value)
    return float(f"{python_value:.9g}") if isinstance(python_value, float) else python_value


def _method(row: pd.Series) -> str:
    """Return the method of a trial, such as ``gdiff``, or how a model is merged: ``negmerge x 1.5 of 00001, 00003``."""
    method, merged = str(row["method"]), cell(row.get("merges"))
    if merged is None:
        return method
    scale = cell(row.get("merge_scale"))
    factor = "" if scale in (None, 1.0) else f" x {number(scale)}"
    return f"{method}{factor} of {str(merged).replace(',', ', ')}"


def _variant_columns(row: pd.Series) -> list[str]:
    return [name for name in row.index if str(name).startswith("auto_lr_") and isinstance(row[name], str)]
