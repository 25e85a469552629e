"""The command line. At import time the command modules import only click and the options, so ``--help`` is fast."""

from __future__ import annotations

import click

from search_spaces.phases import seconds_by_phase
from sweeper.cli.examples import epilog
from sweeper.cli.folder import config, status, stop
from sweeper.cli.listing import listing
from sweeper.cli.machine import cache, doctor, ui
from sweeper.cli.models import evaluate, target, unlearn
from sweeper.cli.pick import pick
from sweeper.cli.report import compare, report
from sweeper.cli.sweeps import lr_study, pareto, resume
from sweeper.store.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """Trace the forget/retain trade-off of machine-unlearning methods: Pareto sweeps on Ray Tune, Optuna and MLflow.

    \b
    python -m sweeper pareto                                  a small sweep, no GPU, no network
    python -m sweeper pareto --method gdiff --model phi-1.5   the paper's set-up
    """


def _print_phases(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    def print_seconds() -> None:
        for name, seconds in seconds_by_phase().items():
            click.echo(f"{seconds:8.2f} s  {name}", err=True)

    if wanted:
        context.call_on_close(print_seconds)


PROFILE = click.Option(
    ["--profile"],
    is_flag=True,
    expose_value=False,
    callback=_print_phases,
    help="At the end, print the seconds of each phase.",
)

for command in (
    pareto,
    lr_study,
    resume,
    status,
    stop,
    report,
    compare,
    pick,
    config,
    unlearn,
    target,
    evaluate,
    listing,
    doctor,
    cache,
    ui,
):
    command.params.append(PROFILE)
    command.epilog = epilog(str(command.name))
    main.add_command(command)
