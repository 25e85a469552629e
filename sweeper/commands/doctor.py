"""``doctor``: is this machine ready, and what will a sweep use here?"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import click

from sweeper.commands.errors import FAILED, plain_errors

_PACKAGES = ("torch", "ray", "transformers", "peft", "datasets", "optuna", "mlflow", "moocore", "rouge-score")


@click.command()
@plain_errors
def doctor() -> None:
    """Check versions, CPUs, GPUs, disk, cache and hub; exit code 1 if something needed is missing."""
    missing = []
    click.echo(f"python        {sys.version.split()[0]}")
    for name in _PACKAGES:
        try:
            click.echo(f"{name:<13} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
            click.echo(f"{name:<13} missing")
    import torch

    from sweeper.hub import hub_problems
    from trainables.target import cache_folder

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    click.echo(f"cpus          {os.cpu_count()}")
    click.echo(f"gpus          {', '.join(gpus) or 'none; trials run on CPU'}")
    click.echo(f"disk here     {shutil.disk_usage(Path.cwd()).free / 1e9:.0f} GB free")
    click.echo(f"cache         {cache_folder()}")
    unreachable = hub_problems([("model", "microsoft/phi-1_5")])
    click.echo(f"hub           {'cannot be reached; tiny-phi and local folders work' if unreachable else 'reachable'}")
    if missing:
        click.echo(f"missing: {', '.join(missing)}; run 'make env'", err=True)
        sys.exit(FAILED)
