"""Numbers, times and trials in the words of figures and reports."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import pandas as pd

_AUTO_LR = ("auto_lr", "auto_lr_smoothing", "auto_lr_probe")


def number(value: object) -> str:
    """Three significant digits (0.0413, 7.60, 1.6e-4), fewer for an exact 0.5; an en dash for nothing; text stays."""
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
        # Zeros at the end of a measurement are digits; those of a setting of exactly 0.5 are not.
        return text.rstrip("0").rstrip(".") if "." in text and float(text) == value else text
    mantissa, _, power = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"


def duration(seconds: float) -> str:
    """``2 h 05 min``, ``3 min 20 s``, ``12.5 s``; an en dash for NaN."""
    if not math.isfinite(seconds):
        return "–"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def counted(count: int, noun: str) -> str:
    """``1 trial``, ``3 trials``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def varying_columns(trials: pd.DataFrame, columns: Sequence[str]) -> tuple[str, ...]:
    """Those of ``columns`` in which the trials differ, in their order; a missing value differs from a given one."""
    if "elsewhere" in trials.columns:
        # A table from elsewhere says little of its settings; that is no variation.
        trials = trials[~trials["elsewhere"].astype(bool)]
    return tuple(name for name in columns if trials[name].nunique(dropna=False) > 1)


def settings_in_words(row: pd.Series, varying: Sequence[str]) -> str:
    """``gdiff, c 0.44, lr 2e-4``: the method, the settings that vary in the sweep, and the learning rate policy."""
    parts = [str(row["method"])]
    parts += [
        f"{name} {number(_python(row[name]))}"
        for name in varying
        if name not in ("method", "lr", *_AUTO_LR) and _given(row[name])
    ]
    if _given(row["lr"]):
        parts.append(learning_rate_in_words(row))
    return ", ".join(parts)


def learning_rate_in_words(row: pd.Series) -> str:
    """``lr 1e-4``, or with AutoLR its variant and its start: ``AutoLR clip/fresh from lr 1e-4``."""
    rate = f"lr {number(_python(row['lr']))}"
    policy = str(row.get("auto_lr", "off"))
    if policy in ("off", ""):
        return rate
    if policy == "on":
        policy = "/".join(str(row[name]) for name in _AUTO_LR[1:] if _given(row.get(name)))
    return f"AutoLR {policy} from {rate}".replace("  ", " ")


def _given(value: object) -> bool:
    return value is not None and value != "" and not (isinstance(value, float) and math.isnan(value))


def _python(value: object) -> Hashable:
    """A numpy scalar as Python's own."""
    item = getattr(value, "item", None)
    return item() if callable(item) else value
