"""Write audit.json and audit.csv, and describe an audit for the report page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from analysis.audit.audit import (
    IGNORANCE,
    KNOWLEDGE,
    LEVEL,
    Audit,
    JudgedModel,
    audit_of,
    compared_metrics,
    judgeable_models,
    pool_rows,
)
from analysis.audit.meta_evaluation import Estimate
from analysis.audit.pools import NEVER_SAW, SAW
from analysis.report.render import render_line, render_lines
from analysis.tables.columns import short
from analysis.tables.sources import Sources, read_source
from analysis.words import DataTable, number
from search_spaces.common.durable import write_atomically, write_json

LEAST = round(1 / LEVEL) - 1
"""The smallest number of models in a pool with which a model can be rejected."""
_CANDIDATE = "candidate"
_VERDICTS = {True: "yes", False: "no", None: "not decided"}
_UNKNOWN_SIGN = "direction unknown"
_LACKS_ATTACKS = "not decided: attacks missing"


def write_audit(out: Path) -> None:
    """Write audit.json and audit.csv, if the audit of the sweep in ``out`` has models to compare.

    Raises:
        AnalysisError: a table or sweep.json cannot be read.
        OSError: a file cannot be written.
    """
    source = read_source(out)
    audit = audit_of(source.table, source.sweep)
    if audit is not None:
        write_json(out / "audit.json", audit.to_dict())
        write_atomically(out / "audit.csv", audit_rows(source, audit).to_csv(index=False))


def audit_rows(source: Sources, audit: Audit) -> pd.DataFrame:
    """Return the rows from which the audit can be computed again: the models of both pools, and the judged models.

    The column ``pool`` is ``never-saw``, ``saw`` or ``candidate``.
    """
    table = source.table
    names = compared_metrics(table)
    pools = [pool_rows(table, pool).assign(pool=pool) for pool in (NEVER_SAW, SAW)]
    judged = judgeable_models(table).assign(pool=_CANDIDATE)
    judged[IGNORANCE] = [model.ignorance_p for model in audit.models]
    judged[KNOWLEDGE] = [model.knowledge_p for model in audit.models]
    judged["deviates_in"] = [model.metric for model in audit.models]
    rows = pd.concat([*pools, judged], ignore_index=True)
    others = [name for name in table.columns.outcomes if name in rows and name not in names]
    attacked = [name for name in others if table.columns[name].attacked]
    return rows[["pool", "trial_id", "epoch", "target_seed", *names, *attacked, IGNORANCE, KNOWLEDGE, "deviates_in"]]


def audit_verdict(audit: Audit) -> tuple[str, ...]:
    """Return sentences on how many models look as if they had never seen the forget set."""
    return tuple(f"{line}." for line in render_lines("audit.verdict", audit=audit, level=LEVEL, least=LEAST))


def audit_sentences(audit: Audit) -> tuple[str, ...]:
    """Return the verdict, and sentences on its errors."""
    return (*audit_verdict(audit), *(f"{line}." for line in render_lines("audit.errors", level=LEVEL)))


def stored_verdict(out: Path) -> tuple[str, ...]:
    """Return the verdict of the audit of the sweep in ``out``; empty if the sweep was not audited.

    Raises:
        AnalysisError: a table or sweep.json cannot be read.
    """
    if not (out / "audit.json").is_file():
        return ()
    source = read_source(out)
    audit = audit_of(source.table, source.sweep)
    return () if audit is None else audit_verdict(audit)


def audit_tables(audit: Audit) -> Iterator[DataTable]:
    """Yield the table of the judged models and the table of the metrics."""
    yield DataTable(
        render_line("audit.models", audit=audit),
        (
            "model",
            "as if never seen",
            "ignorance p",
            "knowledge p",
            "deviates in",
            "its value",
            "never saw: mean",
            "sd",
        ),
        tuple(
            (
                f"{model.trial_id}, epoch {model.epoch:g}",
                _verdict_text(audit, model),
                number(model.ignorance_p),
                number(model.knowledge_p),
                short(model.metric),
                *map(number, (model.value, model.mean, model.sd)),
            )
            for model in sorted(audit.models, key=lambda model: (-model.ignorance_p, model.knowledge_p))
        ),
    )
    yield DataTable(
        render_line("audit.metrics", audit=audit),
        ("metric", "faithfulness", "robustness", "attacks"),
        tuple(
            (
                short(item.metric),
                _estimate(item.faithfulness, unknown=_UNKNOWN_SIGN),
                _estimate(item.robustness, unknown="not measured"),
                ", ".join(item.attacks),
            )
            for item in audit.metrics
        ),
    )


def _verdict_text(audit: Audit, model: JudgedModel) -> str:
    lacks_attacks = audit.can_reject and model.as_never_seen is None
    return _LACKS_ATTACKS if lacks_attacks else _VERDICTS[audit.verdict(model)]


def _estimate(item: Estimate | None, *, unknown: str) -> str:
    return unknown if item is None else f"{number(item.value)} ({number(item.low)} to {number(item.high)})"
