"""Render a comparison as Markdown, LaTeX (booktabs), CSV, HTML and JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType

import pandas as pd

from analysis.comparison.table import ComparisonTable, Entry
from analysis.frontier.pareto_json import json_value
from analysis.report.render import note_text, render, render_line, sentence
from analysis.tables.columns import short

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


def comparison_content(tables: Sequence[ComparisonTable]) -> object:
    """Return the output of ``compare --json``. NaN and infinite numbers become null."""
    return json_value({
        "tables": [
            {
                **table.task._asdict(),
                "metrics": table.metrics,
                "baseline": _entry(table.baseline),
                "rows": [
                    {
                        "method": row.key.method,
                        "options": dict(row.key.options),
                        "without": _entry(row.without),
                        "with_auto": _entry(row.with_auto),
                    }
                    for row in table.rows
                ],
                "rule": _rule(table),
                "notes": [note_text(note) for note in table.notes],
            }
            for table in tables
        ]
    })  # fmt: skip


def _entry(entry: Entry | None) -> dict[str, object] | None:
    if entry is None:
        return None
    excluded = ("missed", "not_judged", "configuration")
    fields = {name: value for name, value in asdict(entry).items() if name not in excluded}
    return fields | {"success": entry.success, "outcome": render_line("comparison_text.outcome", entry=entry)}


def _rule(table: ComparisonTable) -> str:
    thresholds: dict[str, list[str]] = {}
    for item in table.thresholds:
        thresholds.setdefault(item.format_bound(), []).append(item.name)
    return render_line("comparison_text.rule", table=table, thresholds=thresholds)


def _render_tables(template: str, tables: Sequence[ComparisonTable], escape: Callable[[str], str] = str) -> str:
    """Render the tables with a template. In a template, a cell is a list of pairs (text, whether the text is bold)."""
    contexts = []
    for table in tables:
        label = " on ".join(name for name in (table.task.model, table.task.dataset) if name) or "All methods"
        contexts.append({
            "title": f"{label} ({table.task.apart})" if table.task.apart else label,
            "header": ["Method", *(sentence(short(name)) for name in table.metrics), "Success", "Configuration"],
            "rows": [
                {
                    "label": row.key.label,
                    "is_target": row.without is not None and row.without is table.baseline,
                    "cells": [[_cell(entry, name) for entry in table.sides(row)] for name in table.metrics],
                    "success": render_line("comparison_text.success", row=row),
                    "configuration": render_line("comparison_text.configuration", row=row),
                }
                for row in table.every_row
            ],
            "notes": [note_text(note) for note in table.notes],
        })  # fmt: skip
    return render(template, tables=contexts, rule=_rule(tables[0]) if tables else "", escape=escape).rstrip() + "\n"


def _cell(entry: Entry | None, name: str) -> tuple[str, bool]:
    value = entry.values.get(name) if entry else None
    return render_line("comparison_text.value", entry=entry, name=name), bool(value and value.met)


def markdown(tables: Sequence[ComparisonTable]) -> str:
    """Return a GitHub-flavoured Markdown table for every task."""
    return _render_tables("comparison_markdown.j2", tables, lambda text: re.sub(r"[|*_`\[\]<>\\]", r"\\\g<0>", text))


def latex(tables: Sequence[ComparisonTable]) -> str:
    """Return a LaTeX table for every task. LaTeX needs the packages booktabs and graphicx."""
    return _render_tables("comparison_latex.j2", tables, lambda text: text.translate(_LATEX))


def web_page(tables: Sequence[ComparisonTable]) -> str:
    """Return the comparison as one self-contained HTML page."""
    return _render_tables("comparison_page.html.j2", tables)


def comma_separated(tables: Sequence[ComparisonTable]) -> str:
    """Return a CSV with unrounded values. Each row has one metric of a method, either without or with AutoLR.

    If the trials of a method without AutoLR have no value of any metric, the CSV has one row with an empty metric for
    these trials. The same applies to the trials with AutoLR.
    """
    columns = ["model", "dataset", "apart", "method", "options", "auto_lr", "configuration", "seeds", "lost", "success"]
    columns += ["metric", "mean", "deviation", "meets_threshold", "seeds_measured", "succeeded", "seed_numbers"]
    rows = []
    for table in tables:
        for row in table.every_row:
            for policy, entry in (("off", row.without), ("on", row.with_auto)):
                if entry is not None:
                    options = " ".join(f"{name}={value}" for name, value in row.key.options)
                    arm = {**table.task._asdict(), "method": row.key.method, "options": options, "auto_lr": policy}
                    rows += [arm | fields for fields in _csv_fields(entry)]
    return pd.DataFrame(rows, columns=columns, dtype=object).to_csv(index=False, lineterminator="\n")


def _csv_fields(entry: Entry) -> Iterator[dict[str, object]]:
    """Yield the cells of each metric of a configuration. Without metrics, yield the cells of the configuration."""
    fields = {
        "configuration": entry.label,
        "seeds": entry.seeds,
        "lost": entry.lost,
        "success": entry.success,
        "succeeded": entry.succeeded,
        "seed_numbers": " ".join(map(str, entry.seed_numbers)),
    }
    if not entry.values:
        yield fields
    for name, value in entry.values.items():
        measured = {"mean": value.mean, "deviation": value.deviation, "seeds_measured": value.seeds}
        yield fields | {"metric": name, "meets_threshold": value.met} | measured


FORMATS: Mapping[str, Callable[[Sequence[ComparisonTable]], str]] = MappingProxyType(
    {"md": markdown, "tex": latex, "csv": comma_separated, "html": web_page}
)
"""The renderer of each format, keyed by the file suffix."""
