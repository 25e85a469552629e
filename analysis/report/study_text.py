"""Write lr_study.json and lr_study.csv, and describe a learning-rate study in sentences and tables."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from analysis.frontier.indicators import Indicators
from analysis.frontier.pareto_json import json_value
from analysis.report.render import note_text, render_line, render_lines
from analysis.study.fronts import ArmFronts
from analysis.study.lr_study import LrStudy, runs_table
from analysis.study.paired import Share
from analysis.study.sensitivity import Sensitivity
from analysis.study.verdict import Pair, Verdict
from analysis.tables.columns import Columns, short
from analysis.words import DataTable, number
from search_spaces.common.durable import write_atomically, write_json

_NO_VALUE = "\u2013"
_VERDICT_COLUMNS = (
    "comparison", "AutoLR is", "success", "best fixed rate", "collapsed", "best fixed rate", "difference",
    "95% interval", "seeds", "p, better", "p, as good", "detectable",
)  # fmt: skip


def write_study(path: Path, study: LrStudy) -> None:
    """Write the study to a JSON file, and the table of its runs to a CSV file beside the JSON file."""
    write_json(path, study_content(study))
    write_atomically(path.with_suffix(".csv"), runs_table(study).to_csv(index=False, lineterminator="\n"))


def study_title(study: LrStudy) -> str:
    """Return the answer of the study as a title."""
    return render_line("study_headline.title", study=study)


def study_lines(study: LrStudy) -> tuple[str, ...]:
    """Return the answer for each comparison. The primary comparison comes first."""
    return render_lines("study_headline.lines", study=study)


def study_cautions(study: LrStudy) -> tuple[str, ...]:
    """Return warnings about the result, such as repeated seeds."""
    return render_lines("study_headline.cautions", study=study)


def verdict_headline(verdict: Verdict) -> str:
    """Return the first sentence of a verdict, without a full stop."""
    return render_line("study_verdict.headline", v=verdict)


def verdict_lines(verdict: Verdict) -> tuple[str, ...]:
    """Return the sentences that describe a verdict, without full stops."""
    return render_lines("study_verdict.lines", v=verdict)


def study_problems(study: LrStudy, *, describe: bool = False) -> tuple[str, ...]:
    """Return why a study cannot answer its question; () if it can.

    A study is refused if its arms differ in more than the rate rule, if it has no comparison, or if it has too few
    seeds for any decision, whatever its results are. With ``describe``, only arms that differ are refused.
    """
    return render_lines("study_headline.problems", study=study, describe=describe)


def sensitivity_line(item: Sensitivity) -> str:
    """Return a sentence on how sensitive a method is to the learning rate, without a full stop."""
    return render_line("study_tables.sensitivity", item=item)


def study_content(study: LrStudy) -> dict[str, object]:
    """Return the content of lr_study.json. NaN and infinite numbers become null."""
    content = {
        "verdicts": [_verdict_fields(item) for item in study.verdicts],
        "without_verdict": [
            {"method": item.method, "variant": item.variant, "task": item.method_task.task._asdict()}
            | {"why": note_text(item.why)}
            for item in study.no_verdicts
        ],
        "primary": study.primary or None,
        "sensitivity": [_sensitivity_fields(item) for item in study.sensitivity],
        "fronts": [_fronts_fields(item) for item in study.fronts],
        "notes": [*map(note_text, study.notes), *study_cautions(study)],
    }
    return cast("dict[str, object]", json_value(content))


def _verdict_fields(item: Verdict) -> dict[str, object]:
    def shares(pair: Pair[Share] | None) -> dict[str, object] | None:
        if pair is None:
            return None
        return {
            side: {"share": value.share, "low": value.low, "high": value.high}
            for side, value in (("auto", pair.auto), ("hand", pair.hand))
        }

    return {
        "method": item.method,
        "rule": item.rule,
        "task": item.method_task.task._asdict() | {"split": item.split},
        "seeds_vary": item.seeds_vary,
        "outcome": item.outcome,
        "success": shares(item.success),
        "collapse": asdict(item.collapse),
        "quality": asdict(item.quality),
        "equivalence": asdict(item.equivalence),
        "cost": asdict(item.cost),
        "updates": asdict(item.updates) if item.updates else None,
        "detectable": item.detectable,
        "rates": [asdict(rate) for rate in item.rates],
        "headline": verdict_headline(item),
    }


def _sensitivity_fields(item: Sensitivity) -> dict[str, Any]:
    fields = asdict(item)
    del fields["method_task"]
    names = item.method_task.task._asdict() | {"method": item.method_task.method}
    return names | fields | {"words": sensitivity_line(item), "decades": item.decades}


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


def verdicts_table(study: LrStudy) -> DataTable:
    """Return the table of the facts on which the verdicts are based."""
    return DataTable(render_line("study_tables.verdicts_caption"), _VERDICT_COLUMNS, tuple(_verdict_rows(study)))


def _verdict_rows(study: LrStudy) -> Iterator[tuple[str, ...]]:
    for item in study.verdicts:
        success = (item.success.auto, item.success.hand) if item.success else ()
        quality, collapse = item.quality, item.collapse
        yield (
            f"{item.method}, {item.variant}" + (" (primary)" if item.primary else ""),
            item.outcome.replace("_", " "),
            *([f"{one.count} of {one.n}" for one in success] or [_NO_VALUE] * 2),
            *(f"{one.runs} of {one.of}" for one in (collapse.auto, collapse.hand)),
            number(quality.difference),
            f"{number(quality.low)} to {number(quality.high)}",
            str(quality.seeds),
            f"{quality.p:.2g}",
            f"{item.equivalence.p:.2g}",
            number(item.detectable),
        )
