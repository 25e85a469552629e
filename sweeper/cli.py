"""The command line. Only click is imported here and at the top of the command modules, so ``--help`` is instant."""

from __future__ import annotations

import click

from sweeper.commands import (
    compare,
    doctor,
    evaluate,
    listing,
    lr_study,
    pareto,
    pick,
    report,
    resume,
    target,
    ui,
    unlearn,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="unlearning-sweeper")
def main() -> None:
    """Trace the forget/retain trade-off of machine-unlearning methods: Pareto sweeps on Ray Tune, Optuna and MLflow.

    \b
    python -m sweeper pareto                                  a small sweep, no GPU, no network
    python -m sweeper pareto --method gdiff --model phi-1.5   the paper's set-up
    """


for command in (
    pareto.pareto,
    lr_study.lr_study,
    resume.resume,
    report.report,
    compare.compare,
    pick.pick,
    unlearn.unlearn,
    target.target,
    evaluate.evaluate,
    listing.listing,
    doctor.doctor,
    ui.ui,
):
    main.add_command(command)
