"""Rows of finished trials that a table has lost: a file deleted or cut, or a machine that lost its power.

The models of the epochs in candidates.csv are kept while they are on the front, and all others are deleted: what went
on from a table with rows missing would delete models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from search_spaces.messages import counted
from sweeper.folder import UsageError
from sweeper.ledger import Ledger
from trainables.candidates import candidate_folder
from trainables.metrics.registry import DEFAULT_SET
from trainables.run.reports import Status

Rows = Iterable[Mapping[str, str]]


def put_back(ledger: Ledger, trials: Sequence[Mapping[str, str]]) -> str:
    """Give candidates.csv the epochs of ``trials`` that history.csv has and it has not; says how many, "" for none.

    What was measured of them beside the losses is measured again.

    Raises:
        UsageError: neither has the last epoch of a trial.
    """
    history, candidates = ledger.history.read(), ledger.candidates.read()
    found = lost_candidates(trials, history, candidates)
    there = {_place(row) for row in (*candidates, *found)}
    without = [row["trial_id"] for row in _ended(trials).values() if (row["trial_id"], row["steps"]) not in there]
    if without:
        lacking = f"{counted(len(without), 'finished trial')} ({', '.join(without[:5])}{' ...' if without[5:] else ''})"
        raise UsageError(
            f"{ledger.out}: history.csv and candidates.csv lack the last epoch of {lacking}, whose models would be "
            "deleted: put the files back from a copy, or delete these trials' rows in trials.csv: they run again"
        )
    if not found:
        return ""
    ledger.candidates.rewrite([*candidates, *(row | {"checkpoint": _model(ledger.out, row)} for row in found)])
    return f"candidates.csv had lost {counted(len(found), 'epoch')}, which history.csv has: they are put back"


def lost_candidates(trials: Rows, history: Rows, candidates: Rows) -> list[dict[str, str]]:
    """The evaluated epochs of the finished ``trials`` of this sweep that ``candidates`` has not."""
    ended, there = _ended(trials), {_place(row) for row in candidates}
    return [
        dict(row)
        for row in history
        if row["trial_id"] in ended and _place(row) not in there and _is_evaluated(row, ended[row["trial_id"]])
    ]


def _ended(trials: Rows) -> dict[str, Mapping[str, str]]:
    return {row["trial_id"]: row for row in trials if row["status"] == Status.FINISHED and not row.get("reused_from")}


def _model(out: Path, row: Mapping[str, str]) -> str:
    folder = candidate_folder(row["trial_id"], float(row["epoch"]))
    return folder if (out / folder).is_dir() else ""


def _place(row: Mapping[str, str]) -> tuple[str, str]:
    return row["trial_id"], row["step"]


def _is_evaluated(report: Mapping[str, str], trial: Mapping[str, str]) -> bool:
    """Whether the losses of a report are its epoch's own, not those of an earlier one."""
    every = int(trial.get("eval_every") or 1)
    measured = any(report.get(name) for name in DEFAULT_SET)
    return measured or report["step"] == trial["steps"] or float(report["epoch"]) % every == 0
