"""Comparison tables as Markdown, LaTeX (booktabs), CSV and HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from analysis.comparison.table import ComparisonTable, Entry, of_all
from analysis.tables.columns import short
from analysis.words import number

_LATEX = str.maketrans({
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "→": r"$\to$",
    "–": "--",
})  # fmt: skip
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse}th,td{padding:.35rem .7rem;text-align:left;"
    "border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right;white-space:nowrap}"
    "th[scope=row]{white-space:nowrap}td:last-child{min-width:18rem}"
)
_NOTHING = "–"
Words = Callable[[str], str]
Sides = tuple[Entry | None, Entry | None]


def markdown(tables: Sequence[ComparisonTable]) -> str:
    """A GitHub-flavoured table for every model and data set, the rule below."""
    blocks = []
    for table in tables:
        rows = [[_markdown(text) for text in _header(table)], ["---", *["---:"] * len(table.metrics), "---", "---"]]
        for label, sides, cells in _rows(table, _markdown, "**{}**".format):
            rows.append([_markdown(label), *cells, _success(sides), _markdown(_chosen(sides))])
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        notes = ["", *(f"- {_markdown(note)}" for note in table.notes)] if table.notes else []
        blocks.append("\n".join([f"### {_markdown(_title(table))}", "", *lines, *notes]))
    return "\n\n".join([*blocks, _note(tables)]) + "\n"


def latex(tables: Sequence[ComparisonTable]) -> str:
    """A table environment for every model and data set, as wide as the text; the configurations are in the caption.

    Needs ``\\usepackage{booktabs,graphicx}``.
    """
    blocks = []
    for table in tables:
        lines = []
        for label, sides, cells in _rows(table, _tex, r"\textbf{{{}}}".format):
            rule = [r"\midrule"] if table.baseline is not None and sides[0] is table.baseline else []
            lines += [" & ".join([_tex(label), *cells]) + r" \\", *rule]
        chosen = "; ".join(f"{row.method}: {_chosen((row.without, row.with_auto))}" for row in table.rows)
        notes = "".join(f" {note[:1].upper()}{note[1:]}." for note in table.notes)
        caption = f"{_title(table)}. {_note(tables)} Configurations: {chosen}.{notes}"
        block = [
            r"\begin{table}[t]",
            r"\centering\small",
            rf"\caption{{{_tex(caption)}}}",
            r"\resizebox{\textwidth}{!}{%",
            rf"\begin{{tabular}}{{l{'r' * len(table.metrics)}}}",
            r"\toprule",
            " & ".join(map(_tex, _header(table)[:-2])) + r" \\",
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
        ]
        blocks.append("\n".join(block))
    return "% needs \\usepackage{booktabs,graphicx}\n" + "\n\n".join(blocks) + "\n"


def comma_separated(tables: Sequence[ComparisonTable]) -> str:
    """One row for each model, data set, method, policy and metric: the numbers unrounded.

    What lost all its seeds has one row without a metric.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    columns = ("model", "dataset", "apart", "method", "auto_lr", "configuration", "seeds", "lost", "success")
    further = ("succeeded", "seed_numbers")
    writer.writerow((*columns, "metric", "mean", "deviation", "meets_threshold", "seeds_measured", *further))
    for table in tables:
        for label, *sides in _entries(table):
            for policy, entry in zip(("off", "on"), sides, strict=True):
                if entry is not None:
                    chosen = (entry.label, entry.seeds, entry.lost, entry.success)
                    row = (table.model, table.dataset, table.apart, label, policy, *chosen)
                    rest = (entry.succeeded, " ".join(map(str, entry.seed_numbers)))
                    for name, value in entry.values.items():
                        writer.writerow((*row, name, value.mean, value.deviation, value.met, value.seeds, *rest))
                    if not entry.values:
                        writer.writerow((*row, *[None] * 5, *rest))
    return buffer.getvalue()


def web_page(tables: Sequence[ComparisonTable]) -> str:
    """One self-contained page."""
    blocks = []
    for table in tables:
        lines = ["".join(f"<th scope='col'>{html.escape(text)}</th>" for text in _header(table))]
        for label, sides, cells in _rows(table, html.escape, "<strong>{}</strong>".format):
            scores = "".join(f"<td class='n'>{cell}</td>" for cell in cells)
            words = "".join(f"<td>{html.escape(text)}</td>" for text in (_success(sides), _chosen(sides)))
            lines.append(f"<th scope='row'>{html.escape(label)}</th>{scores}{words}")
        rows = "\n".join(f"<tr>{line}</tr>" for line in lines)
        title = html.escape(_title(table))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in table.notes)
        below = f"\n<ul>{notes}</ul>" if notes else ""
        blocks.append(f"<h2>{title}</h2>\n<div class='scroll'><table>\n{rows}\n</table></div>{below}")
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>Comparison of methods</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head>\n<body>"
        "<h1>Methods without and with AutoLR</h1>\n" + "\n".join(blocks) + f"\n<p>{html.escape(_note(tables))}</p>"
        "</body></html>\n"
    )


FORMATS: Mapping[str, Callable[[Sequence[ComparisonTable]], str]] = MappingProxyType(
    {"md": markdown, "tex": latex, "csv": comma_separated, "html": web_page}
)
"""Every format by the suffix of its file."""


def _entries(table: ComparisonTable) -> list[tuple[str, Entry | None, Entry | None]]:
    top = [("No-unlearn", table.baseline, None)] if table.baseline is not None else []
    return [*top, *((row.method, row.without, row.with_auto) for row in table.rows)]


def _rows(table: ComparisonTable, escape: Words, bold: Words) -> Iterator[tuple[str, Sides, list[str]]]:
    """The label, the entries and the metrics' cells of every row, No-unlearn on top.

    A cell is ``without → with``, each in bold where it meets its threshold; the No-unlearn row has one side.
    """
    both = any(row.with_auto is not None for row in table.rows)
    for label, without, with_auto in _entries(table):
        alone = not both or (without is not None and without is table.baseline)
        cells = []
        for name in table.metrics:
            texts = []
            for entry in (without,) if alone else (without, with_auto):
                value = entry.values.get(name) if entry is not None else None
                shown = _NOTHING if value is None else number(value.mean)
                shown += f" ± {number(value.deviation)}" if value is not None and value.deviation is not None else ""
                if entry is not None and value is not None and value.seeds < entry.seeds:
                    shown += f" ({of_all(value.seeds, entry.seeds, entry.unit)})"
                text = escape(shown)
                texts.append(bold(text) if value is not None and value.met else text)
            cells.append(escape(" → ").join(texts))
        yield label, (without, with_auto), cells


def _header(table: ComparisonTable) -> list[str]:
    names = [short(name) for name in table.metrics]
    return ["Method", *(name[:1].upper() + name[1:] for name in names), "Success", "Configuration"]


def _success(sides: Sides) -> str:
    return " → ".join(entry.outcome for entry in sides if entry is not None) or _NOTHING


def _chosen(sides: Sides) -> str:
    """``lr 1e-4, c 0.9 (2 seeds) → AutoLR clip/fresh from lr 1e-4``."""
    texts = []
    for entry in sides:
        if entry is not None and entry.label != "No-unlearn":
            texts.append(f"{entry.label} ({entry.count})" if entry.label else entry.count)
    return " → ".join(texts) or _NOTHING


def _title(table: ComparisonTable) -> str:
    """``tiny-phi on tofu (forget split forget01)``, as far as the table names them."""
    names = " on ".join(name for name in (table.model, table.dataset) if name) or "All methods"
    return f"{names} ({table.apart})" if table.apart else names


def _note(tables: Sequence[ComparisonTable]) -> str:
    return f"Cells: without → with AutoLR. {tables[0].rule if tables else ''}"


def _markdown(text: str) -> str:
    return re.sub(r"[|*_`\[\]<>\\]", r"\\\g<0>", text)


def _tex(text: str) -> str:
    return text.translate(_LATEX)
