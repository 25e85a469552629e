"""``pareto``: search the trade-off of one or several methods and end in a report."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from search_spaces.messages import counted, resume_command
from sweeper.cli import options
from sweeper.cli.config_file import CONFIG, typed
from sweeper.cli.dry_run import dry_run_options, say_plan_of_sweep
from sweeper.cli.errors import FAILED, INTERRUPTED, plain_errors, say
from sweeper.cli.plugin_option import PLUGIN
from sweeper.cli.scheduler_options import scheduler_options

if TYPE_CHECKING:
    from sweeper.execution.finalize import Summary
    from sweeper.settings.sweep_settings import SweepSettings


@click.command()
@options.field("method", help="Method by name (see 'list methods'); repeats.", otherwise="gdiff, ngdiff", multiple=True)
@options.fields("data", "placement")
@CONFIG
@PLUGIN
@click.option("--c", type=options.NUMBER, multiple=True, help="gdiff's weight on the retain loss; repeats.")
@options.field("lr", help="Learning rate; repeats.", otherwise="the model's range", multiple=True)
@options.field("auto_lr", help="off, on, or both, which makes it a searched choice.", default="off")
@click.option("--space", help="'paper' for the paper's grid, or a FILE.yaml, instead of the built-in space.")
@click.option(
    "--trials", type=options.WHOLE, help="Trials in all.  [default: 32, 16 without a scheduler, with grid the grid]"
)
@click.option("--sampler", default="tpe", show_default=True, help="tpe, nsga2, nsga3, gp, qmc, random or grid.")
@click.option("--seeds", type=options.WHOLE, default=1, show_default=True, help="Runs per configuration.")
@options.field("seed", help="First seed of runs and of the search.", default=0)
@click.option("--objectives", help="NAME:max|min,...  [default: forget_loss:max,retain_loss:min]")
@click.option(
    "--candidates",
    default="all",
    show_default=True,
    help="Which epochs of a trial may be on the frontier: all, or its last. With objectives other than losses an epoch "
    "has values where --metrics-every measures them, and at the trial's end.",
)
@scheduler_options()
@click.option(
    "--front-metrics",
    type=options.WHOLE,
    help="Of the epochs on the frontier nearest to the ideal corner so many also get the metrics, at the sweep's end.  "
    "[default: 8]",
)
@click.option(
    "--constraint",
    multiple=True,
    metavar="METRIC>=VALUE",
    help="What a result must meet: utility>=0.7, or utility>=70% of No-unlearn; also <=, >, <; repeats.",
)
@click.option(
    "--enqueue", multiple=True, metavar="NAME=VALUE,...", help="Try this first: lr=1e-3,c=0.5, or a FILE; repeats."
)
@click.option(
    "--warm-start", type=click.Path(), multiple=True, help="Learn from the sweep in this folder first; repeats."
)
@click.option(
    "--reuse", type=click.Path(), multiple=True, help="Take over equal trials of the sweep in this folder; repeats."
)
@options.fields("training", "scoring", "method", "auto_lr")
@options.METHOD_OPTION
@click.option(
    "--gpus-per-trial",
    type=options.GPUS,
    help="Of a GPU; 0.25 puts four trials on one, auto as many as fit.  [default: 0, or 1 where there is one]",
)
@click.option(
    "--cpus-per-trial", type=options.NUMBER, default=1.0, show_default=True, help="CPU threads a trial takes."
)
@click.option(
    "--max-concurrent",
    type=options.WHOLE,
    help="At most this many trials at once; with --address also more than fit now, for nodes that join later.",
)
@click.option("--address", help="Join the Ray cluster at this address ('auto' for a running one).")
@click.option(
    "--no-ship", is_flag=True, help="With --address: the nodes have this project; else it is sent to them (1.6 MB)."
)
@click.option(
    "--storage",
    type=click.Path(),
    help="Folder for Ray's own state, or the s3://, gs:// or abfs:// address of a bucket that all that workers write "
    "travels through.  [default: OUT/ray]",
)
@click.option("--out", type=click.Path(), help="Output folder.  [default: runs/NAME-TIME]")
@click.option(
    "--tracking-uri", help="MLflow server or database.  [default: $MLFLOW_TRACKING_URI, or sqlite:///mlflow.db]"
)
@click.option("--experiment", default="unlearning", show_default=True, help="MLflow experiment.")
@click.option("--time-budget", type=options.NUMBER, help="Seconds after which no new trial starts.")
@click.option("--epoch-budget", type=options.WHOLE, help="Epochs trained in all, after which no new trial starts.")
@click.option(
    "--until",
    metavar="plateau[:N:X]",
    help="End when N trials have not added more than X to the hypervolume.  [plateau: 10 trials, 0.001]",
)
@dry_run_options
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on stdout.")
@plain_errors
def pareto(**given: Any) -> None:
    """Search the forget/retain trade-off of one or several methods; ends in a report.

    Every trial unlearns one model with one method, c and learning rate. The folder OUT then holds trials.csv,
    pareto.json, pareto.png, report.html and the checkpoints.
    """
    from sweeper.cli.from_options import sweep_settings

    settings = sweep_settings(given, command=command_line())
    if given["dry_run"]:
        say_plan_of_sweep(settings, given["out"], measure=given["measure"], as_json=given["as_json"])
        return
    run_new(settings, output_folder(given.get("out"), name=settings.name), as_json=given["as_json"])


def command_line() -> str:
    """The command as typed, for the record; without passwords."""
    import shlex

    from sweeper.settings.tracking_uri import shown_uri

    return shlex.join(["python", "-m", "sweeper", *map(shown_uri, typed())])


def output_folder(given: str | None, *, name: str) -> Path:
    """The folder asked for, or a new one under runs/ named after the sweep and the time."""
    if given is not None:
        return Path(given)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    for suffix in itertools.chain([""], map("-{}".format, itertools.count(2))):
        folder = Path("runs") / f"{name}-{stamp}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue  # another sweep began in this second
        return folder
    raise AssertionError("unreachable")


def run_new(settings: SweepSettings, out: Path, *, as_json: bool) -> None:
    """Begin a sweep in ``out`` and run it; where its trials cannot be placed at all, the folder is not left behind."""
    from sweeper.execution.placement import PlacementError
    from sweeper.store.folder import begin, discard

    begin(settings, out)
    try:
        run_to_the_end(out, as_json=as_json, change={"tracking_uri": settings.tracking_uri})  # with its password
    except PlacementError:
        discard(out)
        raise


def run_to_the_end(
    out: Path,
    *,
    as_json: bool,
    change: Mapping[str, Any] | None = None,
    retry_failed: bool = False,
) -> None:
    """Run the sweep in ``out`` and print how it ended; exit code 130 and the resume command where it was stopped.

    ``change`` has settings it is to go on with; with ``retry_failed`` failed trials run again.
    """
    from sweeper.store.plugins import restore_plugins

    for line in restore_plugins(out):  # before anything looks at what there is to choose
        say(line)

    from sweeper.cli.console import own_console
    from sweeper.cli.lr_study_result import judged_extension
    from sweeper.settings.sweep_settings import LR_STUDY
    from sweeper.settings.tracking_uri import known_uri, shown_uri
    from sweeper.store.folder import read_settings
    from sweeper.sweep import run

    settings = read_settings(out)
    is_study = settings.kind == LR_STUDY
    known = known_uri(settings.tracking_uri)
    where = {"tracking_uri": (change or {}).get("tracking_uri", known)}
    if "@" in settings.tracking_uri and where["tracking_uri"] == settings.tracking_uri:
        say(
            f"passwords are in no file: if MLflow at {shown_uri(settings.tracking_uri)} asks for one, give the address "
            "with it in MLFLOW_TRACKING_URI"
        )

    def whole_sweep() -> Summary:
        summary = run(
            out,
            console=own_console(),
            change={**(change or {}), **where},
            retry_failed=retry_failed,
            end_process=end_process,
        )
        while is_study and (extension := judged_extension(out)):
            summary = run(out, console=own_console(), change={**extension, **where}, end_process=end_process)
        return summary

    stdout = sys.stdout  # while Ray runs, what is printed there goes elsewhere

    def end_process(conclusion: Callable[[], Summary]) -> None:
        code = FAILED
        try:
            with contextlib.redirect_stdout(stdout):
                code = _told(conclusion, out, is_study=is_study, as_json=as_json)
        except Exception as error:
            say(f"error: {error}")
        finally:
            stdout.flush()
            os._exit(code)  # Ray would hold up any other exit until its head answers

    if code := _told(whole_sweep, out, is_study=is_study, as_json=as_json):
        sys.exit(code)


def _told(result: Callable[[], Summary], out: Path, *, is_study: bool, as_json: bool) -> int:
    """Print how the sweep ended, once it has; returns the exit code."""
    from analysis.report.study import study_content
    from sweeper.cli.lr_study_result import judge, print_study
    from sweeper.execution.shutdown import Interrupted

    try:
        summary = result()
    except Interrupted:
        say(f"interrupted; everything finished is kept. Go on with:\n  {resume_command(out)}")
        if as_json:
            click.echo(json.dumps({"out": str(out), "interrupted": True}))
        return INTERRUPTED
    study = judge([out]) if is_study else None
    if as_json:
        click.echo(json.dumps(asdict(summary) | ({"lr_study": study_content(study)} if study else {})))
    else:
        click.echo(describe(summary))
        if study is not None:
            print_study(study)
    broken = summary.run_again or (summary.unmeasured and summary.ended_because)
    return FAILED if summary.status.get("failed", 0) == summary.trials or broken else 0


def _answer_lines(answer: Mapping[str, Any], out: Path) -> Iterator[str]:
    """What to take and where it lies or, where nothing is good, what comes closest and how to do better."""
    yield answer.get("headline", "")
    if trial_id := answer.get("trial_id"):
        place = out / answer["checkpoint"] if answer.get("checkpoint") else "no checkpoint"
        epoch = "" if answer.get("epoch") is None else f" after epoch {answer['epoch']:g}"
        yield f"checkpoint: {place}" if answer.get("recommended") else f"closest: trial {trial_id}{epoch}, {place}"
    yield from (answer.get("advice", ""), *answer.get("judged", ()))


_ENDED_AS = {"stopped": "stopped early"}


def describe(summary: Summary) -> str:
    """The summary in a few lines."""
    status = ", ".join(f"{count} {_ENDED_AS.get(name, name)}" for name, count in summary.status.items())
    trials, asked, hypervolume = summary.trials, summary.asked, summary.hypervolume
    members = counted(summary.front, "trial")
    if summary.front_trials not in (None, summary.front):
        members = f"{counted(summary.front, 'epoch')} of {counted(summary.front_trials, 'trial')}"
    frontier = None if hypervolume is None else f"frontier: {members}, hypervolume {hypervolume:.4f}"
    lines = [
        f"{counted(trials, 'trial')}: {status}" if trials else "no trial ended",
        *filter(None, _answer_lines(summary.answer or {}, Path(summary.out))),
        frontier or "no frontier",
        f"report: {summary.out}/report.html",
    ]
    if summary.tracking:
        lines.append(f"MLflow: {summary.tracking}")
    if summary.reused:
        lines.insert(1, f"{summary.reused} of them taken over from earlier sweeps, not run again")
    if summary.repeated:
        lines.insert(1, f"{summary.repeated} of them at points that had been run here before, not run again")
    if summary.run_again:
        lines.append(
            f"{summary.run_again} trials have no result because a disk, memory or a node failed: resume runs them again"
        )
    if summary.unmeasured:
        why = f" ({summary.ended_because})" if summary.ended_because else ""
        left = f"{counted(summary.unmeasured, 'epoch')} on the frontier could not be measured{why}"
        lines.append(f"{left}; resume tries again")
    if trials < asked and summary.ended_because:
        lines.append(f"{summary.ended_because} left {asked - trials} of {counted(asked, 'trial')} undone; go on with:")
        lines.append(f"  {resume_command(summary.out)} {summary.further}".rstrip())
    elif summary.run_again or summary.unmeasured:
        lines.append("go on, when what was in the way is mended, with:")
        lines.append(f"  {resume_command(summary.out)} {summary.further}".rstrip())
    elif not summary.status.get("finished"):
        lower = "; a lower learning rate (--lr) may not diverge" if summary.status.get("diverged") else ""
        lines.append(f"no trial finished: the column 'error' of trials.csv says why{lower}")
    return "\n".join(lines)
