"""``evaluate``: the TOFU metrics of a published evaluation log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sweeper.commands.errors import Problems, plain_errors


@click.command()
@click.option("--eval-log", required=True, type=click.Path(), help="Evaluation log in the TOFU authors' format.")
@click.option("--retain-eval-log", type=click.Path(), help="Log of the model trained without the forget set.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON on stdout.")
@plain_errors
def evaluate(eval_log: str, retain_eval_log: str | None, as_json: bool) -> None:
    """Model utility, forget quality, and probability, ROUGE-L recall and truth ratio per set, from logged items.

    Forget quality needs the log of a retain model to compare with.
    """
    from trainables.metrics.eval_log import EvalLogError, evaluate_log, read_eval_log

    problems = []
    logs = []
    for name in (eval_log, retain_eval_log):
        try:
            logs.append(read_eval_log(Path(name)) if name is not None else None)
        except EvalLogError as error:
            problems.append(str(error))
    if problems:
        raise Problems(problems)
    log, retain_log = logs
    assert log is not None
    try:
        scores = evaluate_log(log, retain_log)
    except EvalLogError as error:
        raise Problems([str(error)]) from None
    click.echo(json.dumps(scores) if as_json else _table(scores))


def _table(scores: dict[str, Any]) -> str:
    lines = [f"model utility   {scores['model_utility']:.6f}"]
    if scores["forget_quality"] is not None:
        lines.append(f"forget quality  {scores['forget_quality']:.6g}")
    sets = {name: values for name, values in scores.items() if isinstance(values, dict)}
    columns = list(next(iter(sets.values())))
    lines.append(f"{'':<14}" + "".join(f"{column:>16}" for column in columns))
    lines += [
        f"{name:<14}" + "".join(f"{values[column]:>16.6f}" for column in columns) for name, values in sets.items()
    ]
    return "\n".join(lines)
