"""The commands that work on one model, without Ray: ``unlearn``, ``target`` and ``evaluate``."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import click

from search_spaces.common.values import json_text
from sweeper.cli.errors import FAILED, continues_with, exit_with
from sweeper.cli.options import CONFIG, DRY_RUN, command, json_option
from sweeper.cli.plan import print_plan
from sweeper.settings.options import EvaluateOptions, RunOptions, TargetOptions
from sweeper.settings.sources import Raw, command_line, raise_if_any


@command(RunOptions, CONFIG, DRY_RUN, json_option("Print metrics.json on stdout."))
def unlearn(raw: Raw, problems: list[str], *, dry_run: bool, as_json: bool) -> None:
    """Unlearn one model with one method and learning rate, and evaluate it.

    If a run with --out was interrupted or killed, repeat the command to continue from the last saved state.
    """
    from sweeper.checks.world import resolve_and_check

    resolved = resolve_and_check(RunOptions, raw, problems, continues=True)
    spec, points = resolved.base, resolved.options.landscape or 0
    out = Path(resolved.options.out) if resolved.options.out else None

    from sweeper.console import own_console
    from sweeper.followers.mlflow.single_run import record_run
    from sweeper.single_run import run_once
    from sweeper.store.columns import METRIC_COLUMNS
    from sweeper.store.unfinished_run import other_run_problem

    if out is not None and (problem := other_run_problem(out, spec, landscape_points=points)):
        raise_if_any([problem])
    if dry_run:
        from sweeper.checks.plan import plan_of_run

        print_plan(plan_of_run(spec, out), as_json=as_json)
        return
    rerun = command_line(RunOptions, raw)
    note = ""
    if out is None:
        note = "; without --out, only the target is saved, not the state of the run"
        click.echo("without --out, the unlearned model is evaluated and then discarded; --out DIR keeps it", err=True)
    with continues_with(rerun, note):
        console = own_console()
        row = run_once(spec, out=out, console=console, started=time.time(), landscape_points=points, command=rerun)
    if out is not None and resolved.options.tracking_uri is not None:
        click.echo(record_run(row, out, uri=resolved.options.tracking_uri), err=True)
    if as_json:
        click.echo(json_text(row))
    else:
        names = [name for name in ("status", "steps", *METRIC_COLUMNS) if row.get(name) is not None]
        width = max(len(name) for name in [*names, "written to"])
        for name in names:
            click.echo(f"{name:<{width}} {row[name]}")
        if out is not None:
            click.echo(f"{'written to':<{width}} {out}")
    if row["status"] != "finished":
        exit_with([str(row["error"])], FAILED)


@command(TargetOptions, json_option("Print the target's folder and metrics as JSON on stdout."))
def target(raw: Raw, problems: list[str], *, as_json: bool) -> None:
    """Prepare the model that trials start from (the target), and print its folder.

    The target is fine-tuned, unless the cache contains it. With --retain-only, the command trains the retain model
    instead: a model that has not seen the forget set. The metrics forget_quality and privleak need the retain model. If
    training is killed, repeat the command to continue from the last saved state. The folder can be loaded with
    from_pretrained of transformers.
    """
    from sweeper.checks.world import resolve_and_check

    retain_only = bool(raw.get("retain_only"))
    if retain_only and raw.get("target_path"):
        problems.append(
            "--target-path cannot be used with --retain-only, which trains a base model: name the base model with "
            "--model or --model-path"
        )
    resolved = resolve_and_check(TargetOptions, raw, problems)

    from sweeper.console import own_console
    from sweeper.execution.target_task import prepare_with_progress, retain_model_with_progress
    from sweeper.execution.threads import use_free_threads

    console, out = own_console(), resolved.options.out
    use_free_threads()
    prepared_target = None
    with continues_with(command_line(TargetOptions, raw)):
        if retain_only:
            folder = str(retain_model_with_progress(resolved.base, console=console))
        else:
            prepared_target = prepare_with_progress(resolved.base, console=console)
            folder = prepared_target.path
    if out:
        shutil.copytree(folder, out, dirs_exist_ok=True)
        folder = str(Path(out))
    if as_json:
        scores = {} if prepared_target is None else {"key": prepared_target.key, "baseline": prepared_target.baseline}
        click.echo(json_text({"path": folder, **scores}))
        return
    click.echo(folder)
    if prepared_target is not None:
        click.echo(", ".join(f"{name} {value:.4g}" for name, value in prepared_target.baseline.items()))


@command(EvaluateOptions, json_option())
def evaluate(raw: Raw, problems: list[str], *, as_json: bool) -> None:
    """Evaluate a model folder on a data set, or aggregate a published evaluation log.

    For a model folder, --model names the registered model whose prompt template is used. The model in the folder
    must have been trained with this prompt template. The target's scores stand beside the model's if --target-path
    names the target, or if the target is known: for a checkpoint of a sweep or run, and for an adapter. With
    --attacks, the attacks run on the model and, for comparison, on the target and the model of --retain-model,
    which never saw the forget set.

    For a log, the result contains the model utility and, with --retain-eval-log, the forget quality. The result also
    contains the probability, ROUGE-L recall, truth ratio and repetition on each set of questions.
    """
    from sweeper.evaluating import evaluate_raw

    scores = evaluate_raw(raw, problems)
    if as_json:
        click.echo(json_text(scores))
    elif raw.get("eval_log"):
        click.echo("\n".join(_log_lines(scores)))
    else:
        others = {"target": scores.pop("target", {}), "never saw": scores.pop("never_saw", {})}
        width = max(20, *map(len, scores))
        for name, value in scores.items():
            known = [f"{model} {values[name]:.10g}" for model, values in others.items() if name in values]
            beside = f"   ({', '.join(known)})" if known else ""
            click.echo(f"{name:<{width}} {value:.10g}{beside}")


def _log_lines(scores: dict[str, Any]) -> list[str]:
    lines = [f"model utility   {scores['model_utility']:.6f}"]
    if scores["forget_quality"] is not None:
        lines.append(f"forget quality  {scores['forget_quality']:.6g}")
    sets = {name: values for name, values in scores.items() if isinstance(values, dict)}
    first_values = next(iter(sets.values()))
    columns = [name for name in first_values if any(values[name] is not None for values in sets.values())]
    lines.append(f"{'':<14}" + "".join(f"{column:>16}" for column in columns))
    for name, values in sets.items():
        cells = ["" if values[column] is None else f"{values[column]:.6f}" for column in columns]
        lines.append(f"{name:<14}" + "".join(f"{cell:>16}" for cell in cells))
    return lines
