"""Comparison tables as Markdown, LaTeX (booktabs), CSV and HTML."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from analysis.comparison.comparison import RULE, ComparisonTable, Entry, Value
from analysis.words import counted, number

_HEADERS = MappingProxyType(
    {
        "verbmem": "VerbMem",
        "utility": "Utility",
        "truth_ratio": "Truth ratio",
        "forget_loss": "Forget loss",
        "retain_loss": "Retain loss",
        "forget_truth_ratio": "Forget truth ratio",
    }
)
_LATEX = {
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
}
Bold = Callable[[str], str]


def markdown(tables: Sequence[ComparisonTable]) -> str:
    """A GitHub-flavoured table for every model and data set, the rule below."""
    blocks = []
    for table in tables:
        header = ["Method", *map(_header, table.metrics), "Success", "Configuration"]
        rows = [[_markdown(text) for text in header], ["---", *["---:"] * len(table.metrics), "---", "---"]]
        for label, without, with_auto in _entries(table):
            cells = [_cell(table, name, without, with_auto, _markdown, "**{}**".format) for name in table.metrics]
            rows.append(
                [_markdown(label), *cells, _success(without, with_auto), _markdown(_chosen(without, with_auto))]
            )
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        blocks.append("\n".join([f"### {_markdown(_title(table))}", "", *lines]))
    return "\n\n".join([*blocks, _note()]) + "\n"


def latex(tables: Sequence[ComparisonTable]) -> str:
    """A table environment for every model and data set, as wide as the text; the configurations are in the caption.

    Needs ``\\usepackage{booktabs,graphicx}``.
    """
    blocks = []
    for table in tables:
        header = ["Method", *map(_header, table.metrics)]
        lines = []
        for label, without, with_auto in _entries(table):
            cells = [_cell(table, name, without, with_auto, _tex, r"\textbf{{{}}}".format) for name in table.metrics]
            lines.append(" & ".join([_tex(label), *cells]) + r" \\")
            if without is table.baseline and without is not None:
                lines.append(r"\midrule")
        chosen = "; ".join(f"{row.method}: {_chosen(row.without, row.with_auto)}" for row in table.rows)
        caption = f"{_title(table)}. {_note()} Configurations: {chosen}."
        blocks.append(
            "\n".join(
                [
                    r"\begin{table}[t]",
                    r"\centering\small",
                    rf"\caption{{{_tex(caption)}}}",
                    r"\resizebox{\textwidth}{!}{%",
                    rf"\begin{{tabular}}{{l{'r' * len(table.metrics)}}}",
                    r"\toprule",
                    " & ".join(map(_tex, header)) + r" \\",
                    r"\midrule",
                    *lines,
                    r"\bottomrule",
                    r"\end{tabular}}",
                    r"\end{table}",
                ]
            )
        )
    return "% needs \\usepackage{booktabs,graphicx}\n" + "\n\n".join(blocks) + "\n"


def comma_separated(tables: Sequence[ComparisonTable]) -> str:
    """One row for each model, data set, method, policy and metric: the numbers unrounded."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    columns = ("model", "dataset", "method", "auto_lr", "configuration", "seeds", "lost", "success")
    writer.writerow((*columns, "metric", "mean", "deviation", "meets_threshold"))
    for table in tables:
        for label, without, with_auto in _entries(table):
            for policy, entry in (("off", without), ("on", with_auto)):
                if entry is None:
                    continue
                shared = (
                    table.model,
                    table.dataset,
                    label,
                    policy,
                    entry.label,
                    entry.seeds,
                    entry.lost,
                    entry.success,
                )
                for name, value in entry.values.items():
                    writer.writerow((*shared, name, value.mean, value.deviation, value.met))
    return buffer.getvalue()


def web_page(tables: Sequence[ComparisonTable]) -> str:
    """One self-contained page."""
    blocks = []
    for table in tables:
        header = ["Method", *map(_header, table.metrics), "Success", "Configuration"]
        rows = ["<tr>" + "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in header) + "</tr>"]
        for label, without, with_auto in _entries(table):
            cells = [
                _cell(table, name, without, with_auto, html.escape, "<strong>{}</strong>".format)
                for name in table.metrics
            ]
            last = [_success(without, with_auto), html.escape(_chosen(without, with_auto))]
            body = "".join(f"<td class='n'>{cell}</td>" for cell in cells) + "".join(
                f"<td>{cell}</td>" for cell in last
            )
            rows.append(f"<tr><th scope='row'>{html.escape(label)}</th>{body}</tr>")
        title = html.escape(_title(table))
        blocks.append(f"<h2>{title}</h2>\n<div class='scroll'><table>\n" + "\n".join(rows) + "\n</table></div>")
    style = (
        "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#222}"
        ".scroll{overflow-x:auto}table{border-collapse:collapse}th,td{padding:.35rem .7rem;text-align:left;"
        "border-bottom:1px solid #ddd;vertical-align:top}td.n{text-align:right;white-space:nowrap}"
        "th[scope=row]{white-space:nowrap}td:last-child{min-width:18rem}"
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>Comparison of methods</title>"
        f"<meta name='viewport' content='width=device-width'><style>{style}</style></head>\n<body>"
        "<h1>Methods without and with AutoLR</h1>\n" + "\n".join(blocks) + f"\n<p>{html.escape(_note())}</p>"
        "</body></html>\n"
    )


FORMATS: Mapping[str, Callable[[Sequence[ComparisonTable]], str]] = MappingProxyType(
    {"md": markdown, "tex": latex, "csv": comma_separated, "html": web_page}
)
"""Every format by the suffix of its file."""


def _entries(table: ComparisonTable) -> list[tuple[str, Entry | None, Entry | None]]:
    top = [("No-unlearn", table.baseline, None)] if table.baseline is not None else []
    return [*top, *((row.method, row.without, row.with_auto) for row in table.rows)]


def _cell(
    table: ComparisonTable, name: str, without: Entry | None, with_auto: Entry | None, escape: Bold, bold: Bold
) -> str:
    """``without → with``, each in bold where it meets its threshold; the No-unlearn row has one side."""
    sides = [without] if without is not None and without is table.baseline else [without, with_auto]
    if with_auto is None and all(row.with_auto is None for row in table.rows):
        sides = [without]
    texts = []
    for entry in sides:
        value = entry.values.get(name) if entry is not None else None
        text = escape(_shown(value))
        texts.append(bold(text) if value is not None and value.met else text)
    return escape(" → ").join(texts)


def _shown(value: Value | None) -> str:
    if value is None:
        return "–"
    return number(value.mean) if value.deviation is None else f"{number(value.mean)} ± {number(value.deviation)}"


def _success(without: Entry | None, with_auto: Entry | None) -> str:
    sides = [entry.success_in_words() for entry in (without, with_auto) if entry is not None]
    return " → ".join(sides) or "–"


def _chosen(without: Entry | None, with_auto: Entry | None) -> str:
    """``lr 1e-4, c 0.9 (2 seeds) → AutoLR clip/fresh from lr 1e-4``."""
    texts = []
    for entry in (without, with_auto):
        if entry is None or entry.label == "No-unlearn":
            continue
        seeds = counted(entry.seeds, "seed") + (f", {entry.lost} lost" if entry.lost else "")
        texts.append(f"{entry.label} ({seeds})" if entry.label else seeds)
    return " → ".join(texts) or "–"


def _title(table: ComparisonTable) -> str:
    """``tiny-phi on authors``, as far as the table names them."""
    return " on ".join(name for name in (table.model, table.dataset) if name) or "All methods"


def _note() -> str:
    return f"Cells: without → with AutoLR. {RULE}"


def _header(name: str) -> str:
    return _HEADERS.get(name, name)


def _markdown(text: str) -> str:
    return "".join(f"\\{character}" if character in "|*_`[]<>\\" else character for character in text)


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)
