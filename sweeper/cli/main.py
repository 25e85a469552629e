"""The command line. Only click is imported here and at the top of the command modules, so ``--help`` is instant."""

from __future__ import annotations

import click

from search_spaces.phases import seconds_by_phase
from sweeper.cli.cache import cache
from sweeper.cli.compare import compare
from sweeper.cli.config import config
from sweeper.cli.doctor import doctor
from sweeper.cli.evaluate import evaluate
from sweeper.cli.examples import epilog
from sweeper.cli.listing import listing
from sweeper.cli.lr_study import lr_study
from sweeper.cli.pareto import pareto
from sweeper.cli.pick import pick
from sweeper.cli.report import report
from sweeper.cli.resume import resume
from sweeper.cli.status import status
from sweeper.cli.stop import stop
from sweeper.cli.target import target
from sweeper.cli.ui import ui
from sweeper.cli.unlearn import unlearn
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
