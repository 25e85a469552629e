"""Write lr_study.json and lr_study.csv, and describe a learning-rate study in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from analysis.frontier.indicators import Indicators
from analysis.frontier.pareto_json import json_value
from analysis.report.render import note_text, render_line, render_lines
from analysis.study.fronts import ArmFronts
from analysis.study.lr_study import LrStudy, fronts_table
from analysis.study.sensitivity import Sensitivity
from analysis.study.verdict import Baseline, NoVerdict, Verdict, seeds_for
from analysis.tables.columns import Columns, short
from analysis.words import DataTable, number
from search_spaces.common.durable import write_atomically, write_json

_NO_VALUE = "\u2013"
_DIFFERENCE_COLUMNS = (
    "pair", "hypervolume, AutoLR minus hand-tuned", "95% interval", "fresh seeds", "ahead on", "p (Holm)", "AutoLR is",
    "paired-t interval",
)  # fmt: skip


def write_study(path: Path, study: LrStudy) -> None:
    """Write the study to a JSON file, and the table of its Pareto fronts to a CSV file beside the JSON file."""
    write_json(path, study_content(study))
    write_atomically(path.with_suffix(".csv"), fronts_table(study.grid).to_csv(index=False, lineterminator="\n"))


def study_title(study: LrStudy) -> str:
    """Return the answer of the study as a title."""
    return render_line("study_headline.title", study=study)


def study_lines(study: LrStudy) -> tuple[str, ...]:
    """Return one sentence with the answer for each method and AutoLR variant. The primary question comes first."""
    return render_lines("study_headline.lines", study=study)


def study_cautions(study: LrStudy) -> tuple[str, ...]:
    """Return warnings about the result, such as a best rate at the edge of the grid."""
    return render_lines("study_headline.cautions", study=study)


def verdict_lines(verdict: Verdict) -> tuple[str, ...]:
    """Return the sentences that describe a verdict, without full stops."""
    return render_lines("study_verdict.lines", v=verdict)


def sensitivity_line(item: Sensitivity) -> str:
    """Return a sentence on how sensitive a method is to the learning rate, without a full stop."""
    return render_line("study_tables.sensitivity", item=item)


def study_content(study: LrStudy) -> dict[str, object]:
    """Return the content of lr_study.json. NaN and infinite numbers become null."""
    columns = study.grid.configuration_columns
    content = {
        "settings": list(columns),
        "sensitivity": [
            _fields(item) | {"words": sensitivity_line(item), "decades": item.decades} for item in study.sensitivity
        ],
        "verdicts": [_verdict_fields(item, columns) for item in study.verdicts],
        "without_verdict": [_fields(item) | {"why": note_text(item.why)} for item in study.no_verdicts],
        "primary": study.primary or None,
        "fronts": [_fronts_fields(item) for item in study.fronts],
        "notes": [note_text(note) for note in study.notes],
        "afterwards": note_text(study.afterwards) if study.afterwards else "",
    }
    return cast("dict[str, object]", json_value(content))


def _fields(item: Sensitivity | Verdict | NoVerdict) -> dict[str, Any]:
    """Return the fields as a dictionary, with the task and the method instead of the field ``method_task``."""
    fields = asdict(item)
    del fields["method_task"]
    return item.method_task.task._asdict() | {"method": item.method_task.method} | fields


def _verdict_fields(item: Verdict, columns: Sequence[str]) -> dict[str, object]:
    return _fields(item) | {
        "words": verdict_lines(item),
        "baselines": [_baseline_fields(baseline, columns) for baseline in item.baselines],
        "curve": asdict(item.curve) | {"above_all_rates": item.curve.above_all_rates},
    }


def _baseline_fields(item: Baseline, columns: Sequence[str]) -> dict[str, object]:
    return asdict(item) | {
        "choice": [dict(zip((*columns, "lr"), (*values, rate), strict=True)) for values, rate in item.choice.items()],
        "further": {box: sides._asdict() for box, sides in item.further.items()},
        "fresh_least": item.fresh_least,
        "fresh_needed": item.fresh_needed,
        "seeds_needed": None if item.fresh_needed is None else seeds_for(item.fresh_needed),
    }


def _fronts_fields(item: ArmFronts) -> dict[str, object]:
    return item.task._asdict() | {
        "arms": [
            {"name": name, "trials": item.trials[name], **asdict(indicators)}
            | {"further": {box: asdict(arms[name]) for box, arms in item.further.items() if name in arms}}
            for name, indicators in item.indicators.items()
        ],
    }


def rates_table(item: Sensitivity, columns: Columns) -> DataTable:
    """Return a table with a row for each fixed learning rate, and for each AutoLR variant and initial rate."""
    rows = [(f"lr {number(row.lr)}", row) for row in item.rates]
    rows += [(f"AutoLR {variant} from {number(row.lr)}", row) for variant, group in item.auto.items() for row in group]
    scores = columns.primaries(name for _, row in rows for name in row.metrics)
    boxes = dict.fromkeys(box for _, row in rows for box, volume in row.further.items() if not math.isnan(volume))
    cells = tuple(
        (
            *(name, number(row.hypervolume), number(row.deviation), str(row.seeds), str(row.diverged)),
            *(number(row.further[box]) for box in boxes),
            *(number(row.metrics.get(score)) for score in scores),
        )
        for name, row in rows
    )
    header = (
        "learning rate",
        "hypervolume",
        "\u00b1 over seeds",
        "seeds",
        "diverged",
        *(f"hypervolume, {box}" for box in boxes),
        *(short(score) for score in scores),
    )
    return DataTable(render_line("study_tables.rates_caption", item=item), header, cells)


def arms_table(fronts: ArmFronts) -> DataTable:
    """Return the table that compares the Pareto front of each arm with the Pareto front of all arms together.

    An arm is a method, either with fixed rates or with one AutoLR variant.
    """
    rows = tuple(
        (
            *(arm, str(fronts.trials[arm])),
            *map(number, (indicators.hypervolume, indicators.igd_plus, indicators.epsilon)),
            *(cell for box in fronts.further.values() for cell in _box_cells(box.get(arm))),
        )
        for arm, indicators in fronts.indicators.items()
    )
    boxes = (f"{name}, {box}" for box in fronts.further for name in ("hypervolume", "epsilon"))
    header = ("arm", "trials", "hypervolume", "IGD+", "epsilon", *boxes)
    return DataTable(render_line("study_tables.arms_caption", fronts=fronts), header, rows)


def _box_cells(indicators: Indicators | None) -> tuple[str, str]:
    return (number(indicators.hypervolume), number(indicators.epsilon)) if indicators else (_NO_VALUE, _NO_VALUE)


def differences_table(study: LrStudy) -> DataTable:
    """Return the table of the hypervolume differences on which the verdicts are based."""
    caption = render_line(
        "study_tables.differences_caption",
        same_seeds=any(verdict.same_seeds for verdict in study.verdicts),
        primary=any(baseline.primary for verdict in study.verdicts for baseline in verdict.baselines),
    )
    return DataTable(caption, _DIFFERENCE_COLUMNS, tuple(_difference_rows(study)))


def _difference_rows(study: LrStudy) -> Iterator[tuple[str, ...]]:
    for verdict in study.verdicts:
        for baseline in verdict.baselines:
            result = baseline.result
            pair = f"{study.subject(verdict)} against the {baseline.name}"
            yield (
                f"{pair} (primary)" if baseline.primary else pair,
                f"{result.mean:+.4f}",
                _interval(baseline.bounds),
                str(result.n),
                f"{result.ahead}, {result.tied} tied" if result.tied else str(result.ahead),
                _NO_VALUE if baseline.p_holm is None else f"{baseline.p_holm:.3g}",
                baseline.outcome,
                _interval(result.t_interval),
            )


def _interval(bounds: tuple[float, float] | None) -> str:
    return _NO_VALUE if bounds is None else f"{bounds[0]:+.4f} to {bounds[1]:+.4f}"
