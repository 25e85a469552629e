"""``doctor``: is this machine ready, and what will a sweep use here?"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import click

from sweeper.commands.errors import FAILED, plain_errors

_PACKAGES = ("torch", "ray", "transformers", "peft", "datasets", "optuna", "mlflow", "moocore", "rouge-score")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON on stdout.")
@plain_errors
def doctor(as_json: bool) -> None:
    """Check versions, CPUs, GPUs, disk, cache and hub; exit code 1 if something needed is missing."""
    versions = {"python": sys.version.split()[0]} | {name: _version(name) for name in _PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    import torch

    from sweeper.commands.hub_check import hub_problems
    from trainables.target.cache import cache_folder

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    free = shutil.disk_usage(Path.cwd()).free
    reachable = not hub_problems([("model", "microsoft/phi-1_5")])
    if as_json:
        machine = {"cpus": os.cpu_count(), "gpus": gpus, "disk_free_bytes": free, "cache": str(cache_folder())}
        click.echo(json.dumps({"versions": versions, "missing": missing, **machine, "hub_reachable": reachable}))
    else:
        lines = {name: version or "missing" for name, version in versions.items()}
        lines |= {"cpus": str(os.cpu_count()), "gpus": ", ".join(gpus) or "none; trials run on CPU"}
        lines |= {"disk here": f"{free / 1e9:.0f} GB free", "cache": str(cache_folder())}
        lines["hub"] = "reachable" if reachable else "cannot be reached; tiny-phi and local folders work"
        click.echo("\n".join(f"{name:<13} {value}" for name, value in lines.items()))
    if missing:
        click.echo(f"missing: {', '.join(missing)}; run 'make env'", err=True)
        sys.exit(FAILED)


def _version(package: str) -> str | None:
    import importlib.metadata  # a third of the time of --help

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
