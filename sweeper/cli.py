"""The command line. Only click is imported here and at the top of the command modules, so ``--help`` is instant."""

from __future__ import annotations

import click

from search_spaces.phases import seconds_by_phase
from sweeper.commands.cache import cache
from sweeper.commands.compare import compare
from sweeper.commands.config import config
from sweeper.commands.doctor import doctor
from sweeper.commands.evaluate import evaluate
from sweeper.commands.examples import epilog
from sweeper.commands.listing import listing
from sweeper.commands.lr_study import lr_study
from sweeper.commands.pareto import pareto
from sweeper.commands.pick import pick
from sweeper.commands.report import report
from sweeper.commands.resume import resume
from sweeper.commands.status import status
from sweeper.commands.stop import stop
from sweeper.commands.target import target
from sweeper.commands.ui import ui
from sweeper.commands.unlearn import unlearn
from sweeper.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """Trace the forget/retain trade-off of machine-unlearning methods: Pareto sweeps on Ray Tune, Optuna and MLflow.

    \b
    python -m sweeper pareto                                  a small sweep, no GPU, no network
    python -m sweeper pareto --method gdiff --model phi-1.5   the paper's set-up
    """


def _print_phases(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    def told() -> None:
        for name, seconds in seconds_by_phase().items():
            click.echo(f"{seconds:8.2f} s  {name}", err=True)

    if wanted:
        context.call_on_close(told)


PROFILE = click.Option(
    ["--profile"], is_flag=True, expose_value=False, callback=_print_phases, help="Say at the end where the time went."
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
