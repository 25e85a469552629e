"""``lr-study``: how sensitive methods are to the learning rate, and whether AutoLR beats a person's choice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from sweeper.cli import options
from sweeper.cli.dry_run import say_plan_of_sweep
from sweeper.cli.errors import plain_errors, refuse
from sweeper.cli.pareto import command_line, output_folder, pareto, run_new

_NOT_HERE = (
    *("space", "trials", "sampler", "auto_lr"),
    *("candidates", "enqueue", "warm_start", "epoch_budget", "until"),
)
"""A study visits a whole grid, and compares trials of equal budgets."""
_OF_FINISHED = ("folders", "out", "objectives", "as_json", "profile", "primary", "dry_run", "extend")
"""What ``--from`` reads, or refuses in words of its own."""
_TYPED = click.core.ParameterSource.COMMANDLINE


@click.command("lr-study")
@options.field("method", help="Method by name (see 'list methods'); repeats.", otherwise="gdiff, ngdiff", multiple=True)
@options.field("lr", help="Learning rate; repeats.", otherwise="5 over the model's range", multiple=True)
@click.option(
    "--c",
    type=options.NUMBER,
    multiple=True,
    help="gdiff's weight on the retain loss; repeats.  [default: .5, .9, .99]",
)
@click.option("--seeds", type=options.WHOLE, default=2, show_default=True, help="Runs per configuration.")
@click.option(
    "--seeds-vary",
    default="order",
    show_default=True,
    help="What a seed changes: the order of examples; also the target; or also the data (authors) and its target.",
)
@click.option(
    "--auto-lr-start-lr", type=options.NUMBER, multiple=True, help="Where AutoLR starts; repeats.  [default: every lr]"
)
@options.field(
    "auto_lr_smoothing", help="safe, search, trust, paper, clip or official; each an arm; repeats.", multiple=True
)
@options.field("auto_lr_probe", help="same or fresh; each an arm; repeats.", multiple=True)
@options.field(
    "auto_lr_probe_batches", help="Retain batches a fresh probe averages over; each an arm; repeats.", multiple=True
)
@click.option(
    "--extend", is_flag=True, help="Where the best rate is at the edge of the grid, run up to 4 rates beyond it too."
)
@click.option(
    "--primary",
    metavar="METHOD[/VARIANT]",
    help="Name beforehand the one question that is not corrected for the others: AutoLR with this method.",
)
@click.option(
    "--from", "folders", type=click.Path(), multiple=True, help="Judge finished sweeps in these folders; runs nothing."
)
@plain_errors
def lr_study(**given: Any) -> None:
    """Run methods x learning rates x seeds (x c), with AutoLR beside them, and judge.

    OUT holds what a sweep leaves, and lr_study.json: each method's spread over learning rates, the range of rates
    within 5% of the best, and AutoLR against the best hand-tuned rate, seed by seed.
    """
    from sweeper.cli.lr_study_settings import lr_study_settings

    if given["folders"]:
        from analysis.report.study import study_content
        from sweeper.cli.lr_study_result import judge, print_study

        refuse(_of_finished(given))
        study = judge(
            [*map(Path, given["folders"])],
            target=Path(given["out"]) if given["out"] else None,
            objectives=given["objectives"],
        )
        if given["as_json"]:
            click.echo(json.dumps(study_content(study)))
        else:
            print_study(study)
        return
    settings = lr_study_settings(given, command=command_line())
    if given["dry_run"]:
        say_plan_of_sweep(settings, given["out"], measure=given["measure"], as_json=given["as_json"])
        return
    run_new(settings, output_folder(given.get("out"), name=settings.name), as_json=given["as_json"])


def _of_finished(given: dict[str, Any]) -> list[str]:
    """What cannot be asked of studies that have their results."""
    problems = []
    if given["out"] is None and len(given["folders"]) > 1:
        problems.append("--from with several folders needs --out FILE.json for the result")
    if given["primary"] is not None:
        problems.append(
            f"--primary {given['primary']}: a primary question is named before there are results, and these studies "
            "have theirs; what a study named when it began counts without being named again"
        )
    if given["dry_run"]:
        problems.append("--dry-run says what would be run, and --from runs nothing")
    if given["extend"]:
        problems.append("--extend runs trials, and --from runs nothing: extend the study itself, by resume --extend")
    if given["objectives"]:
        from sweeper.settings.objectives import ObjectiveError, parse_objectives

        try:
            parse_objectives(given["objectives"])
        except ObjectiveError as error:
            problems.append(str(error))
    return problems + [f"{flag} is about trials, and --from runs none" for flag in _said_in_vain()]


def _said_in_vain() -> list[str]:
    """The options of the command line that mean nothing to studies that have their results."""
    context = click.get_current_context()
    return [
        option.opts[0]
        for option in context.command.params
        if option.name not in _OF_FINISHED and context.get_parameter_source(str(option.name)) is _TYPED
    ]


_OWN = {parameter.name for parameter in lr_study.params}
# All other options mean what they mean for pareto.
lr_study.params.extend(option for option in pareto.params if option.name not in {*_OWN, *_NOT_HERE})
