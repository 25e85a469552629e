"""Phrases that the messages of several packages share."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

_MAX_COLUMNS = 20
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """Replace control characters by visible symbols, except tabs and newlines.

    A control character can change the state of a terminal, and is not allowed in HTML.
    """
    return _CONTROL.sub(lambda match: chr(0x2400 + ord(match[0])) if match[0] < " " else "\ufffd", text)


def shown(text: str, length: int) -> str:
    """Return a text from the user's data for a message, on one line and with at most ``length`` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= length else f"{line[: length - 3]}..."


def counted(count: float, noun: str) -> str:
    """Return a number with its noun, such as ``1 trial`` or ``3 trials``."""
    number = count if isinstance(count, int) else f"{count:g}"
    return f"{number} {noun}" if count == 1 else f"{number} {noun}s"


def some_of(names: Sequence[str]) -> str:
    """Return the first five names, such as ``a, b, c``. If there are more names, end with ``and 3 more``."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def format_size(count: float) -> str:
    """Return a number of bytes with a unit, such as ``5.3 MB``."""
    for scale, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= scale:
            return f"{count / scale:.0f} {unit}" if count >= 10 * scale else f"{count / scale:.1f} {unit}"
    return f"{count:.0f} B"


def did_you_mean(unknown_name: str, choices: Collection[str]) -> str:
    """Return ``did you mean 'ngdiff'?`` with the most similar choice, or "" if no choice is similar."""
    import difflib  # imported here because --help does not need it

    by_lower = {name.lower(): name for name in choices}
    matches = difflib.get_close_matches(unknown_name.lower(), by_lower)
    # Prefer names with the same letters in a different order.
    matches.sort(key=lambda name: sorted(name) != sorted(unknown_name.lower()))
    return f"did you mean '{by_lower[matches[0]]}'?" if matches else ""


def columns_hint(required: Collection[str], columns: Collection[str]) -> str:
    """List the columns found and suggest columns: ``the columns found are Method; did you mean 'Method'?``."""
    column_list = ", ".join(list(columns)[:_MAX_COLUMNS]) or "none"
    hint = f"the columns found are {column_list}"
    if len(columns) > _MAX_COLUMNS:
        hint += f" and {len(columns) - _MAX_COLUMNS} more"
    suggestions = " ".join(filter(None, (did_you_mean(name, columns) for name in required if name not in columns)))
    return f"{hint}; {suggestions}" if suggestions else hint


def expected_one_of(unknown_name: str, choices: Collection[str]) -> str:
    """Return a hint for an unknown name: ``did you mean 'ngdiff'? expected one of gdiff, ngdiff``."""
    suggestion = did_you_mean(unknown_name, choices)
    expected = f"expected one of {', '.join(choices)}"
    return f"{suggestion} {expected}" if suggestion else expected


def resume_command(out: object) -> str:
    """Return the command that resumes the sweep in the folder ``out``."""
    return f"python -m sweeper resume {shlex.quote(str(out))}"


def no_sweep(path: object) -> str:
    """Return a message for a path that is not the folder of a sweep."""
    if not Path(str(path)).exists():
        is_table = Path(str(path)).suffix == ".csv"
        return f"{path} does not exist" if is_table else f"{path} holds no sweep: the folder does not exist"
    return f"{path} holds no sweep: sweep.json is missing"
