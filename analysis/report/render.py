"""Render sentences, HTML pages and text tables with the Jinja2 templates in templates/.

A template for sentences is a file of macros. Values are escaped only in ``*.html.j2``. An HTML template must call
:func:`render_line` instead of importing macros, because imported macros would not escape values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from analysis.study.paired import Share, least_seeds
from analysis.tables.columns import short
from analysis.tables.note import Note
from analysis.words import duration, number
from search_spaces.common.messages import counted, printable

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    env = Environment(
        loader=PackageLoader("analysis.report"),
        autoescape=lambda name: bool(name and name.endswith(".html.j2")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "counted": counted,
        "plural": lambda count, one, many: one if count == 1 else many,
        "duration": duration,
        "number": number,
        "percent": "{:.0%}".format,
        "listed": listed,
        "short": short,
        "sentence": sentence,
        "markup": Markup,
        "note": note_text,
        "seeds": seeds,
        "least_seeds": least_seeds,
        "share": share,
        "spelled": spelled,
        "signed": lambda value: f"{'+' if value > 0 else ''}{number(value + 0.0)}",  # no -0
    }
    env.globals |= {"render_line": render_line, "render_lines": render_lines}
    return env


def render(template: str, /, **facts: object) -> str:
    """Render a whole template, such as ``report.html.j2``. Control characters in values are replaced by symbols."""
    return printable(environment().get_template(template).render(**facts))


def render_line(macro: str, /, **facts: object) -> str:
    """Render a macro as one line. For example, ``answer.headline`` is the macro ``headline`` in answer.j2."""
    return " ".join(render_lines(macro, **facts))


def render_lines(macro: str, /, **facts: object) -> tuple[str, ...]:
    """Render a macro, and return each paragraph as one line. Paragraphs are separated by blank lines."""
    file, _, name = macro.partition(".")
    text = str(getattr(environment().get_template(f"{file}.j2").module, name)(**facts))
    # Remove the spaces that line breaks in a template leave before punctuation marks.
    lines = (re.sub(r"\s+(?=[,;:.](\s|$))", "", " ".join(block.split())) for block in re.split(r"\n\s*\n", text))
    return tuple(printable(line) for line in lines if line)


def listed(items: Iterable[object], last: str = "and") -> str:
    """Join the items for a sentence, such as ``a, b and c``."""
    *first, final = [str(item) for item in items] or [""]
    return f"{', '.join(first)} {last} {final}" if first else final


def share(item: Share) -> str:
    """Return a share with its interval, such as ``17 of 20 (62% to 97%)``."""
    return f"{item.count} of {item.n} ({item.low:.0%} to {item.high:.0%})"


def spelled(count: int) -> str:
    """Return a number up to ten as a word, such as ``five``."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    return words[count] if count < len(words) else str(count)


def sentence(text: str) -> str:
    """Return the text with a capital first letter."""
    return text[:1].upper() + text[1:]


def note_text(note: Note) -> str:
    """Return a note as text, without a full stop."""
    text = render_line(f"note.{note.code}", **dict(note.facts))
    return f"{note.source}: {text}" if note.source else text


def seeds(numbers: Iterable[int]) -> str:
    """Return text such as ``seed 0``, ``seeds 0 to 7, 9`` or ``no seed``."""
    runs: list[list[int]] = []
    for seed in sorted(numbers):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    ranges = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"seed{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(ranges)}" if runs else "no seed"
