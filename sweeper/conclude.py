"""How a sweep ends: tables in order, report written, MLflow told, and a summary of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from search_spaces.messages import resume_command, some_of
from search_spaces.phases import phase
from sweeper.execution.frontier_metrics import unmeasured
from sweeper.execution.shutdown import Interrupted, is_interrupted
from sweeper.followers.mlflow.runs import NOTE, Recommendation
from sweeper.followers.mlflow.store import RECOMMENDED_EPOCH, RECOMMENDED_TRIAL
from sweeper.session import SweepSession
from sweeper.settings.sweep_settings import SweepSettings
from sweeper.settings.tracking_uri import shown_uri
from sweeper.store.folder import SweepError
from sweeper.store.tables import TABLES
from trainables.run.failures import is_no_result
from trainables.run.reports import Status

_KEPT = (
    *("sweep.json", *TABLES),
    *("pareto.json", "pareto.png", "pareto.svg", "report.html", "figures"),
)
"""What MLflow keeps with the sweep's run."""


@dataclass(frozen=True, slots=True)
class Summary:
    """How a sweep ended, for people and for ``--json``. ``status`` has the number of trials with each status, zeros
    included.

    ``run_again`` counts the trials without a result because the disk, the memory or a node failed.
    ``reused`` counts the trials taken over from earlier sweeps, ``repeated`` those of a point that had been run here.
    ``front`` counts what is on the frontier, ``front_trials`` the trials it is of. ``answer`` is what the report
    answers, None where it has none. ``unmeasured`` counts epochs on the frontier whose metrics could not be measured.
    """

    out: str
    trials: int
    asked: int
    status: Mapping[str, int]
    hypervolume: float | None
    front: int
    tracking: str
    answer: Mapping[str, Any] | None = None
    front_trials: int | None = None
    reused: int = 0
    repeated: int = 0
    ended_because: str | None = None
    further: str = ""
    run_again: int = 0
    unmeasured: int = 0


def conclude(settings: SweepSettings, out: Path, session: SweepSession, console: Console) -> Summary:
    """Order the tables, write the report, log both to MLflow; say what is missing.

    Raises:
        SweepError: finished trials could not be written.
        Interrupted: trials are left to run.
    """
    from analysis.report.report import write_report

    rows = session.tables.trials.read()
    undone = len(rows) < settings.trials
    end = session.end if undone else None
    origins = [row["reused_from"] for row in rows if row.get("reused_from")]
    here = {f"{session.tables.out}/{row['trial_id']}" for row in rows}
    complete = not undone or end is not None
    interrupted = is_interrupted() or not complete
    over = [row for row in rows if not is_no_result(row["status"], row["error"])]
    for row in over:  # a driver killed as a trial ended left the trial's saved states behind
        session.forget_states(row["trial_id"])
    missing = [] if interrupted else session.bring_models()
    refused: OSError | None = None
    if rows or not interrupted:
        try:
            with phase("tables, figures and report"):
                session.put_in_order()
                write_report(out)
        except OSError as error:
            refused = error
    pareto = out / "pareto.json"
    front: dict[str, Any] = json.loads(pareto.read_text(encoding="utf-8")) if pareto.is_file() else {}
    session.tracker.sweep_ended(
        status="interrupted" if interrupted or session.broken else "finished",
        metrics={"hypervolume": front.get("hypervolume")},
        artifacts=[out / name for name in _KEPT if (out / name).exists()],
        tags=_answer_tags(front.get("answer")),
        front=_by_trial(front.get("front", ())),
        recommended=_recommended(front.get("answer"), rows),
        picture="pareto.png" if (out / "pareto.png").exists() else None,
    )
    waiting = console.status("sending what is left to MLflow") if console.is_terminal else nullcontext()
    with waiting, phase("MLflow, what was not sent yet"):
        delivered = session.tracker.close(timeout=60.0)
    unmirrored = session.syncer.close() if session.syncer is not None else None
    if refused is not None or session.tables.unwritten:
        raise SweepError(_of_the_disk(out, refused, session.tables.unwritten))
    if interrupted:
        raise Interrupted
    if missing or unmirrored:
        raise SweepError(_of_the_storage(out, settings, missing, unmirrored))
    lacking = len(unmeasured(out, most=settings.front_metrics)) if session.broken or session.unscored else 0
    end = session.end if undone or (lacking and session.broken) else None
    return Summary(
        out=str(out),
        trials=len(rows),
        asked=settings.trials,
        status={str(status): sum(row["status"] == status for row in rows) for status in Status},
        hypervolume=front.get("hypervolume"),
        front=len(front.get("front", ())),
        front_trials=len(_by_trial(front.get("front", ()))),
        tracking=delivered.message or shown_uri(settings.tracking_uri),
        answer=front.get("answer"),
        reused=sum(origin not in here for origin in origins),
        repeated=sum(origin in here for origin in origins),
        ended_because=end.because if end else None,
        further=end.further if end else "",
        run_again=len(rows) - len(over) + (settings.trials - len(rows) if session.broken else 0),
        unmeasured=lacking,
    )


def _of_the_disk(out: Path, refused: OSError | None, unwritten: int) -> str:
    why = (refused.strerror or str(refused)) if refused else "the disk refuses"
    lost = f"; {unwritten} trials that ended could not be written, and run again" if unwritten else ""
    return (
        f"{out}: {why}: the sweep cannot go on and has no report{lost}. What is in its tables is kept; make space, "
        f"then go on with:\n  {resume_command(out)}"
    )


def _of_the_storage(out: Path, settings: SweepSettings, missing: Sequence[str], refusal: str | None) -> str:
    what = f"{some_of(missing)} could not be fetched" if missing else "it does not have the last rows of the tables"
    return (
        f"the storage of the sweep, {refusal or (settings.bucket and settings.bucket.uri)}: {what}. "
        f"Nothing that finished is lost; when the storage answers, go on with:\n  {resume_command(out)}"
    )


def _by_trial(front: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Of each trial on the frontier, its epochs there with the places of their checkpoints."""
    found: dict[str, dict[str, str]] = {}
    for member in sorted(front, key=lambda member: member["step"] or 0):
        epochs = found.setdefault(member["trial_id"], {})
        epochs["last" if member["epoch"] is None else f"{member['epoch']:g}"] = member["checkpoint"] or ""
    return found


def _recommended(answer: Mapping[str, Any] | None, rows: Sequence[Mapping[str, str]]) -> Recommendation | None:
    """The model to take, if the answer recommends one; ``rows`` are those of trials.csv."""
    if not answer or not answer["recommended"]:
        return None
    trial_id, epoch, place = answer["trial_id"], answer["epoch"], answer["checkpoint"] or ""
    is_end = epoch is None or any(place and place == row["checkpoint"] for row in rows if row["trial_id"] == trial_id)
    which = f"trial {trial_id}" if epoch is None else f"epoch {epoch:g} of trial {trial_id}"
    where = f"folder `checkpoint` under Artifacts; `{place}` in the sweep's folder" if place else "not available"
    return Recommendation(
        trial_id,
        None if is_end else f"{epoch:g}",
        place,
        "\n\n".join((answer["headline"], *answer["judged"], f"This run: {which}.", f"Checkpoint: {where}.")),
    )


def _answer_tags(answer: Mapping[str, Any] | None) -> dict[str, object]:
    """What MLflow's parent run says of the sweep, as the report does."""
    if not answer:
        return {}
    told = " ".join(filter(None, (answer["headline"], answer["advice"], *answer["judged"])))
    outcome = {"outcome": answer["outcome"], RECOMMENDED_TRIAL: "none", RECOMMENDED_EPOCH: "none"}
    if answer["recommended"]:
        outcome[RECOMMENDED_TRIAL] = answer["trial_id"]
        outcome[RECOMMENDED_EPOCH] = "last" if answer["epoch"] is None else f"{answer['epoch']:g}"
    return {"answer": answer["headline"], **outcome, NOTE: told}
