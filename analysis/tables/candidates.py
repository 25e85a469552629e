"""The evaluated epochs of trials, as rows of a trial table. Each epoch is a model that can be selected."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.tables.columns import Columns
from analysis.tables.csv_rows import read_rows, typed_frame

_NAMED = ("trial_id", "epoch", "step", "checkpoint")


def no_candidates() -> pd.DataFrame:
    """Return a table of candidates without rows."""
    return pd.DataFrame({name: pd.Series(dtype=object) for name in ("sweep", *_NAMED)})


def read_candidates(out: Path, sweep: str, columns: Columns) -> pd.DataFrame:
    """Read the rows of candidates.csv, sorted by trial and step. If a checkpoint was deleted, its path becomes empty.

    Raises:
        AnalysisError: the file cannot be read. The message names the line and the expected content.
    """
    path = out / "candidates.csv"
    cells, _ = read_rows(path, required=_NAMED)
    frame = typed_frame(path, cells, is_number=lambda name: name == "epoch" or columns.is_number(name))
    frame = by_step(frame, sweep)
    existing = [path if path and (out / path).is_dir() else "" for path in frame["checkpoint"]]
    return frame.assign(checkpoint=pd.Series(existing, dtype=object))


def by_step(rows: pd.DataFrame, sweep: str) -> pd.DataFrame:
    """Sort rows by trial and step, and add the column ``sweep``. If a step has several rows, only the last is kept."""
    rows = rows.drop_duplicates(["trial_id", "step"], keep="last")
    rows = rows.sort_values(["trial_id", "step"], kind="stable", ignore_index=True)
    rows.insert(0, "sweep", sweep)
    return rows


def lost_ends(trials: pd.DataFrame, candidates: pd.DataFrame) -> tuple[str, ...]:
    """Return the ids of the finished trials of a sweep whose last epoch is not among the candidates."""
    if "steps" not in trials:
        return ()
    ended = trials[trials["status"] == "finished"]
    if "reused_from" in ended:
        ended = ended[ended["reused_from"].fillna("") == ""]
    known = set(zip(candidates["trial_id"], candidates["step"], strict=True))
    return tuple(key[0] for key in zip(ended["trial_id"], ended["steps"], strict=True) if key not in known)


def models_of(trials: pd.DataFrame, candidates: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model, with the columns ``epoch`` and ``step`` before the columns of ``trials``.

    The status of every row is ``finished``. A candidate has the settings of its trial and the values that were measured
    at its epoch. Values that were not measured are missing.
    """
    keys = ["sweep", "trial_id"]
    known = trials[keys].merge(candidates[keys].drop_duplicates(), how="left", indicator=True)["_merge"] == "both"
    alone = trials[~known.to_numpy() & (trials["status"] == "finished").to_numpy()]
    alone = alone.assign(epoch=_numbers(alone, "epochs_done"), step=_numbers(alone, "steps"))
    if not known.any():
        return alone
    own = [name for name in candidates.columns if name in trials.columns and name not in keys]
    settings = trials.drop(columns=[*own, "status"])
    rows = candidates.merge(settings, on=keys).assign(status="finished")
    # The checkpoint of the last epoch is in the trial's own row.
    ends = trials.loc[trials["status"] == "finished", [*keys, "steps", "checkpoint"]]
    last = rows[[*keys, "step"]].merge(ends, "left", left_on=[*keys, "step"], right_on=[*keys, "steps"])["checkpoint"]
    rows["checkpoint"] = rows["checkpoint"].where(rows["checkpoint"] != "", last.fillna(""))
    rows["epochs_done"], rows["steps"] = rows["epoch"], rows["step"]
    return pd.concat([rows, alone], ignore_index=True)[["epoch", "step", *trials.columns]]


def _numbers(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[name].astype(float) if name in rows else pd.Series(np.nan, index=rows.index)
