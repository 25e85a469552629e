"""``evaluate``: the metrics of any checkpoint, or those of a published evaluation log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sweeper.cli import options
from sweeper.cli.errors import Problems, plain_errors, refuse
from sweeper.cli.plugin_option import PLUGIN
from trainables.spec import FIELDS, TrialSpec

_NOT_HERE = ("model_path", "metrics_every", *(name for name in FIELDS if name.startswith("target_")))
_OF_A_MODEL = tuple(
    item.name
    for item in FIELDS.values()
    if item.role in ("data", "placement", "scoring") and item.name not in _NOT_HERE
)


@click.command()
@click.option("--eval-log", type=click.Path(), help="Evaluation log in the TOFU authors' format.")
@click.option("--retain-eval-log", type=click.Path(), help="Log of the model trained without the forget set.")
@options.field("model_path", help="Folder of the model to score, or of a PEFT adapter.")
@options.fields("data", "placement", "scoring", but=_NOT_HERE)
@PLUGIN
@click.option("--out", type=click.Path(), help="Write metrics.json and the per-item values, items.json, here.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON on stdout.")
@plain_errors
def evaluate(**given: Any) -> None:
    """Score a model folder on a data set, or aggregate a published evaluation log.

    Of a log: model utility, forget quality (against the log of a retain model), and probability, ROUGE-L recall,
    truth ratio and repetition per set. --model names the registered model whose prompt template a folder was trained
    with.
    """
    found = scores(given)
    if given["as_json"]:
        click.echo(json.dumps(found))
    elif given["eval_log"] is not None:
        click.echo(_table(found))
    else:
        for name, value in found.items():
            click.echo(f"{name:<20} {value:.10g}")


def scores(given: dict[str, Any]) -> dict[str, Any]:
    """The metrics of the model or the log that the options name.

    Raises:
        Problems: everything that is wrong with the options.
    """
    if (given["eval_log"] is None) == (given["model_path"] is None):
        raise Problems(["evaluate needs either --model-path DIR, a model to score, or --eval-log FILE, a log to read"])
    if given["eval_log"] is not None:
        if idle := [name for name in (*_OF_A_MODEL, "out") if given[name] is not None]:
            flags = ", ".join(FIELDS[name].flag if name in FIELDS else f"--{name}" for name in idle)
            raise Problems([f"{flags}: of a model; an --eval-log has its own items and metrics"])
        return _scores_of_log(given["eval_log"], given["retain_eval_log"])
    spec = _checked(given)

    from search_spaces.durable import write_json
    from sweeper.cli.console import own_console
    from sweeper.execution.target_task import print_left_out_metrics, progress_shown
    from trainables.scoring.item_log import write_item_log
    from trainables.target.checkpoint_scores import score_checkpoint
    from trainables.target.target_spec import target_spec_of

    console = own_console()
    print_left_out_metrics(target_spec_of(spec).left_out, console)
    with progress_shown(spec, console, first="scoring the model") as (show, _):
        scored = score_checkpoint(spec, on_progress=show)
    if given["out"]:
        out = Path(given["out"])
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "metrics.json", {**scored.metrics, "generation_seconds": scored.generation_seconds})
        write_item_log(out / "items.json", scored.items)
    return dict(scored.metrics)


def _checked(given: dict[str, Any]) -> TrialSpec:
    from sweeper.checks.specs import checked_spec
    from sweeper.checks.specs import model_folder_problems as whole_model_problems
    from trainables.modality import dataset_modality
    from trainables.models.registry import MODELS
    from trainables.target.checkpoint_scores import checkpoint_problems

    problems = []
    if given["retain_eval_log"] is not None:
        problems.append("--retain-eval-log goes with --eval-log; beside --model-path it is --retain-model DIR")
    of_model = MODELS[given["model"]].dataset if given["model"] in MODELS else None
    modality = dataset_modality(given["dataset"] or of_model)
    folder = Path(given["model_path"])
    problems += checkpoint_problems(
        folder, lambda path: whole_model_problems(path, flag="--model-path", modality=modality)
    )
    # Without a name or a data set a folder would be taken for one that a sweep fine-tunes on TOFU.
    named = given | {"model_path": None, "model": given["model"] or modality.offline_model}
    return checked_spec(named, problems, target_path=str(folder.resolve()))


def _scores_of_log(eval_log: str, retain_eval_log: str | None) -> dict[str, Any]:
    from trainables.scoring.eval_log import EvalLogError, evaluate_log, read_eval_log

    logs, problems = [], []
    for name in [eval_log, *([] if retain_eval_log is None else [retain_eval_log])]:
        try:
            logs.append(read_eval_log(Path(name)))
        except EvalLogError as error:
            problems.append(str(error))
    refuse(problems)
    try:
        return dict(evaluate_log(*logs))
    except EvalLogError as error:
        raise Problems([str(error)]) from None


def _table(scores: dict[str, Any]) -> str:
    lines = [f"model utility   {scores['model_utility']:.6f}"]
    if scores["forget_quality"] is not None:
        lines.append(f"forget quality  {scores['forget_quality']:.6g}")
    sets = {name: values for name, values in scores.items() if isinstance(values, dict)}
    columns = [name for name in next(iter(sets.values())) if any(values[name] is not None for values in sets.values())]
    lines.append(f"{'':<14}" + "".join(f"{column:>16}" for column in columns))
    for name, values in sets.items():
        cells = ["" if values[column] is None else f"{values[column]:.6f}" for column in columns]
        lines.append(f"{name:<14}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)
