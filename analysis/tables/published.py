"""Read the result files of other projects as tables with one row for each model.

| project | file |
|---|---|
| open-unlearning | ``TOFU_EVAL.json`` and ``TOFU_SUMMARY.json`` of one model; rows of ``community/leaderboard.md`` |
| unlearning-depth-score | ``docs/data/method_results.json`` of all its models |

A metric that this project defines in the same way has this project's name. Every other metric of a file has the prefix
``published_``, because its value cannot be recomputed from the row. Two columns are added and can be recomputed:
``aggregate`` (:func:`aggregate`), and ``overall_recomputed``, which is unlearning-depth-score's own aggregate.
"""

from __future__ import annotations

import json
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.errors import AnalysisError

SUFFIXES = (".json", ".md")
"""The endings of the files that :func:`published_rows` reads."""
_OPEN_UNLEARNING = {
    "forget_Q_A_Prob": "forget_probability",
    "retain_Q_A_Prob": "retain_probability",
    "forget_Q_A_ROUGE": "verbmem",
    "retain_Q_A_ROUGE": "utility",
    "forget_Truth_Ratio": "forget_truth_ratio",
    "retain_Truth_Ratio": "truth_ratio",
    **{name: name for name in ("forget_quality", "model_utility", "extraction_strength", "exact_memorization")},
}
"""The columns for the metrics of open-unlearning on TOFU. MUSE's metrics there use ROUGE-L F1, so none is the same."""
_DEPTH = {
    "retain_q_prob": "retain_probability",
    "retain_q_rouge": "utility",
    "retain_truth_ratio": "truth_ratio",
    "model_utility": "model_utility",
}
_BASELINES = {"finetuned": "target", "full": "target", "base model (no unlearning)": "target"}
"""The names of the model before unlearning."""
_MEMORIZATION = ("one_minus_es", "one_minus_em", "one_minus_paraprob", "one_minus_truth")
_MEMBERSHIP = ("s_loss", "s_zlib", "s_mink", "s_minkpp")
_FLOOR = 1e-12
"""The lowest value of a part of unlearning-depth-score's harmonic means."""

Row = dict[str, Any]


def published_rows(path: Path) -> pd.DataFrame:
    """Return the models of a file of another project, as text cells like those of a CSV file.

    The index is the position of the model in the file, from 1.

    Raises:
        AnalysisError: the file cannot be read, or has none of the known formats.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix == ".json" else None
    except (OSError, ValueError) as error:
        raise AnalysisError(f"{path} cannot be read: {error}") from None
    rows = list(_leaderboard_rows(text)) if content is None else _json_rows(content, path)
    if not rows:
        raise AnalysisError(
            f"{path} has none of the known formats: expected TOFU_EVAL.json, TOFU_SUMMARY.json or leaderboard.md of "
            "open-unlearning, or method_results.json of unlearning-depth-score; convert other results to CSV"
        )
    rows = [row | aggregate_of(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [["" if row.get(name) is None else str(row[name]) for name in names] for row in rows]
    return pd.DataFrame(cells, range(1, len(rows) + 1), names, dtype=object)


def harmonic_mean(values: Iterable[float]) -> float:
    """Return the harmonic mean of values that are not negative; 0 if one of them is 0."""
    return statistics.harmonic_mean(list(values))


def aggregate(*, extraction_strength: float, exact_memorization: float, model_utility: float) -> float:
    """Return the harmonic mean of 1 - extraction strength, 1 - exact memorization and model utility.

    It needs neither a retain model nor the target, so it can be recomputed from the row of one model.
    """
    return harmonic_mean([1.0 - extraction_strength, 1.0 - exact_memorization, model_utility])


def aggregate_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the column ``aggregate`` of a row; empty if a part is missing."""
    names = ("extraction_strength", "exact_memorization", "model_utility")
    parts = {name: row[name] for name in names if isinstance(row.get(name), int | float)}
    return {"aggregate": aggregate(**parts)} if len(parts) == len(names) else {}


def _json_rows(content: Any, path: Path) -> list[Row]:
    if not isinstance(content, dict) or not content:
        return []
    if isinstance(content.get("models"), list):
        return [_depth_row(model, content.get("full_utility") or {}) for model in content["models"]]
    values = {
        name: item.get("agg_value") if isinstance(item, dict) else item
        for name, item in content.items()
        if not name.startswith("__")
    }
    if not set(values) & set(_OPEN_UNLEARNING):
        return []
    method = path.resolve().parent.name  # open-unlearning stores each model in the folder of its task
    known = {name: value for name, value in values.items() if _is_number(value)}
    return [{"method": method, "name": method, "dataset": "tofu", **_renamed(known, _OPEN_UNLEARNING)}]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> Row:
    return {names.get(name, f"published_{name}"): value for name, value in values.items()}


def _depth_row(model: Mapping[str, Any], full_utility: Mapping[str, float]) -> Row:
    """Return one model of method_results.json, with its aggregate recomputed from its parts.

    ``overall`` there is the harmonic mean of memorization, privacy and utility: of (1 - extraction strength, 1 - exact
    memorization, 1 - paraphrase probability, 1 - truth ratio); of (the harmonic mean of the membership scores, the
    depth score); and of (model utility, fluency) relative to the target, at most 1.
    """
    # Rows that differ only in the rate are one method. The other settings are part of the name.
    name = re.sub(r"_lr[^_]+", "", str(model["model"]))
    method = _BASELINES.get(name, name)
    settings = {"method": method, "name": model["model"], "dataset": "tofu", "lr": model.get("lr")}
    settings["epochs"] = str(model.get("epoch") or "").removeprefix("ep")
    other = ("method", "model", "lr", "epoch", "is_reference")
    values = {name: value for name, value in model.items() if name not in other and _is_number(value)}
    row = settings | _renamed(values, _DEPTH)
    for part, name in (("one_minus_es", "extraction_strength"), ("one_minus_em", "exact_memorization")):
        if part in values:
            row[name] = 1.0 - values[part]
    reference = full_utility.get(str(model.get("epoch")))
    if reference and {*_MEMORIZATION, *_MEMBERSHIP, "uds", "model_utility", "fluency"} <= values.keys():
        memorization = _floored_mean(values[name] for name in _MEMORIZATION)
        privacy = _floored_mean([_floored_mean(values[name] for name in _MEMBERSHIP), values["uds"]])
        utility = min(1.0, _floored_mean([values["model_utility"], values["fluency"]]) / reference)
        row["overall_recomputed"] = _floored_mean([memorization, privacy, utility])
    return row


def _floored_mean(values: Iterable[float]) -> float:
    return harmonic_mean(max(value, _FLOOR) for value in values)


class _Tables(HTMLParser):
    """The HTML tables of a Markdown page: the heading above each, and its rows as pairs (text, columns spanned)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[list[tuple[str, int]]]]] = []
        self._text: str | None = None
        self._span = 1
        self._above = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            headings = [line for line in self._above.splitlines() if line.startswith("#")]
            self.tables.append((headings[-1].lstrip("# ") if headings else "", []))
        elif tag == "tr" and self.tables:
            self.tables[-1][1].append([])
        elif tag in ("th", "td") and self.tables:
            self._text, self._span = "", int(dict(attrs).get("colspan") or 1)

    def handle_data(self, data: str) -> None:
        if self._text is None:
            self._above += data
        else:
            self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td") and self._text is not None and self.tables and self.tables[-1][1]:
            self.tables[-1][1][-1].append((self._text.strip(), self._span))
            self._text = None


def _leaderboard_rows(text: str) -> Iterator[Row]:
    """Yield a row for each method and group of columns of each table in leaderboard.md of open-unlearning."""
    parser = _Tables()
    parser.feed(text)
    rows = [row for title, table in parser.tables for row in _table_rows(title, table)]
    problems = {(row["model"], row["dataset"], row.get("forget_split")) for row in rows}
    for row in rows:
        # A table of one problem has one model before unlearning. In other files, it is a row like the others.
        baseline = _BASELINES.get(row["method"].lower()) if len(problems) == 1 else None
        yield row | {"method": baseline or row["method"]}


def _table_rows(title: str, table: list[list[tuple[str, int]]]) -> Iterator[Row]:
    if len(table) < 2 or not table[0] or table[0][0][0] != "Method":
        return
    groups = [name for name, span in table[0][1:] for _ in range(span)]
    metrics = [name for name, _ in table[1][1:]]
    is_tofu = "TOFU" in title
    benchmark = next((name for name in ("muse", "wmdp") if name in title.lower()), "")
    model = title.split("`")[1] if title.count("`") >= 2 else ""
    for cells in table[2:]:
        if len(cells) != 1 + len(metrics) or len(groups) != len(metrics):
            continue  # a separator, or an incomplete row
        method = cells[0][0]
        for group in dict.fromkeys(groups):
            values = {
                name: float(value)
                for name, other, (value, _) in zip(metrics, groups, cells[1:], strict=True)
                if other == group and value
            }
            part = group.lower().removesuffix(" split")
            dataset = "tofu" if is_tofu else "-".join(filter(None, (benchmark, part)))
            place = {"model": model, "dataset": dataset, **({"forget_split": group} if is_tofu else {})}
            name = ", ".join(filter(None, (method, model or dataset, group)))
            yield {"method": method, "name": name, **place, **_renamed(values, _OPEN_UNLEARNING if is_tofu else {})}


def leaderboard_row(method: str, *, forget_quality: float | None, model_utility: float) -> str:
    """Return a method's row for a TOFU table of leaderboard.md of open-unlearning."""
    quality = "" if forget_quality is None else f"{forget_quality:.3g}"
    cells = (f"      <th>{method}</th>", f"      <td>{quality}</td>", f"      <td>{model_utility:.2g}</td>")
    return "\n".join(("    <tr>", *cells, "    </tr>")) + "\n"
