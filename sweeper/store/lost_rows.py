"""Rows that candidates.csv has lost: the file was deleted or cut, or the machine lost its power.

The models of the epochs in candidates.csv are kept while they are on the front, and all others are deleted: what went
on from a table with rows missing would delete models.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from search_spaces.messages import counted, some_of
from sweeper.store.folder import UsageError
from sweeper.store.tables import ResultTables
from trainables.candidates import candidate_folder
from trainables.metrics.registry import DEFAULT_SET, LOSS_METRICS
from trainables.run.reports import Status

Rows = Iterable[Mapping[str, str]]


def put_back(tables: ResultTables, trials: Sequence[Mapping[str, str]], *, eval_every: int = 1) -> str:
    """Give candidates.csv the epochs that history.csv has and it has not; says how many, "" for none.

    ``trials`` are those that have ended; any other is evaluated ``eval_every`` epochs. What was measured beside the
    losses is measured again.

    Raises:
        UsageError: neither has the last epoch of a finished trial.
    """
    history, candidates = tables.history.read(), tables.candidates.read()
    found = lost_candidates(trials, history, candidates, eval_every=eval_every)
    there = {_place(row) for row in (*candidates, *found)}
    finished = (row for row in trials if row["status"] == Status.FINISHED and not row.get("reused_from"))
    without = [row["trial_id"] for row in finished if (row["trial_id"], float(row["steps"])) not in there]
    if without:
        lacking = f"{counted(len(without), 'finished trial')} ({some_of(without)})"
        raise UsageError(
            f"{tables.out}: history.csv and candidates.csv lack the last epoch of {lacking}, whose models would be "
            "deleted: put the files back from a copy, or delete these trials' rows in trials.csv: they run again"
        )
    if not found:
        return ""
    tables.candidates.rewrite([*candidates, *(row | {"checkpoint": _model(tables.out, row)} for row in found)])
    ended = {row["trial_id"] for row in trials}
    if not any(row["trial_id"] in ended for row in found):  # a driver killed between the two tables
        return ""
    return f"candidates.csv had lost {counted(len(found), 'epoch')}, which history.csv has: they are put back"


def lost_candidates(trials: Rows, history: Rows, candidates: Rows, *, eval_every: int = 1) -> list[dict[str, str]]:
    """The evaluated epochs of this sweep's trials, ended or not, that ``candidates`` has not."""
    ended, there = {row["trial_id"]: row for row in trials}, {_place(row) for row in candidates}
    return [
        dict(row)
        for row in history
        if _place(row) not in there and _is_evaluated(row, ended.get(row["trial_id"], {}), eval_every)
    ]


def _model(out: Path, row: Mapping[str, str]) -> str:
    folder = candidate_folder(row["trial_id"], float(row["epoch"]))
    return folder if (out / folder).is_dir() else ""


def _place(row: Mapping[str, str]) -> tuple[str, float]:
    return row["trial_id"], float(row["step"])


def _is_evaluated(report: Mapping[str, str], trial: Mapping[str, str], eval_every: int) -> bool:
    """Whether the losses of a report are its epoch's own: not those of an earlier one, nor taken over."""
    if trial.get("reused_from") or not any(report.get(name) for name in LOSS_METRICS):
        return False
    is_last = bool(trial) and float(report["step"]) >= float(trial.get("steps") or "inf")
    if is_last and trial["status"] in (Status.DIVERGED, Status.FAILED):
        return False
    measured = any(report.get(name) for name in DEFAULT_SET)
    return measured or is_last or float(report["epoch"]) % float(trial.get("eval_every") or eval_every) == 0
