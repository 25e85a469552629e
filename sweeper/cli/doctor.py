"""``doctor``: is this machine ready, and what will a sweep use here?"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from sweeper.checks.cluster_health import as_values, faults_of, in_words, look_at_nodes
from sweeper.cli.errors import FAILED, Problems, plain_errors
from sweeper.execution.nodes import Facts
from trainables.storage import StorageError, is_address, storage_problem

_PACKAGES = ("torch", "ray", "transformers", "peft", "datasets", "optuna", "mlflow", "moocore", "rouge-score")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON on stdout.")
@click.option("--address", help="Look at each node of the Ray cluster at this address, too ('auto' for a running one).")
@click.option(
    "--shared",
    type=click.Path(path_type=Path),
    multiple=True,
    help="With --address: a folder that all nodes must see, read and write; repeats.  [default: the cache]",
)
@click.option(
    "--storage",
    metavar="URI",
    multiple=True,
    help="s3://, gs:// or abfs:// address that is to be read and written from here and from each node; repeats.",
)
@plain_errors
def doctor(as_json: bool, address: str | None, shared: tuple[Path, ...], storage: tuple[str, ...]) -> None:
    """Check versions, CPUs, GPUs, disk, cache, hub, and a cluster's nodes; exit code 1 if something is wrong."""
    if shared and address is None:
        raise Problems(["--shared is for the nodes of a cluster: give its --address"])
    if folders := [text for text in storage if not is_address(text)]:
        raise Problems([f"--storage {text} is a folder: give it as --shared, with --address" for text in folders])
    if refused := [problem for uri in storage if (problem := storage_problem(uri))]:
        raise Problems(refused)
    versions = {"python": sys.version.split()[0]} | {name: _version(name) for name in _PACKAGES}
    missing = [name for name, version in versions.items() if version is None]
    import torch

    from sweeper.checks.hub import hub_problems
    from trainables.target.cache import cache_folder

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    free = shutil.disk_usage(Path.cwd()).free
    reachable = not hub_problems([("model", "microsoft/phi-1_5")])
    nodes = _nodes(address, [path.resolve() for path in shared] or [cache_folder()], storage) if address else {}
    faults = faults_of(nodes)
    if as_json:
        machine = {"cpus": os.cpu_count(), "gpus": gpus, "disk_free_bytes": free, "cache": str(cache_folder())}
        cluster = {"nodes": as_values(nodes), "faults": faults} if address else {}
        state = {"versions": versions, "missing": missing, **machine, "hub_reachable": reachable, **cluster}
        click.echo(json.dumps(state))
    else:
        lines = {name: version or "missing" for name, version in versions.items()}
        lines |= {"cpus": str(os.cpu_count()), "gpus": ", ".join(gpus) or "none; trials run on CPU"}
        lines |= {"disk here": f"{free / 1e9:.0f} GB free", "cache": str(cache_folder())}
        lines["hub"] = "reachable" if reachable else "cannot be reached; tiny-phi and local folders work"
        click.echo("\n".join(f"{name:<13} {value}" for name, value in lines.items()))
        for uri in storage:
            click.echo(f"{'storage':<13} {uri.partition('?')[0]} can be read and written from here")
        for line in in_words(nodes):
            click.echo(f"{'node':<13} {line}")
    if missing:
        click.echo(f"missing: {', '.join(missing)}; run 'make env'", err=True)
    for fault in faults:
        click.echo(f"node {fault}", err=True)
    if missing or faults:
        sys.exit(FAILED)


def _nodes(address: str, folders: Sequence[Path], storages: Sequence[str]) -> dict[str, Facts | None]:
    from sweeper.execution.placement import PlacementError

    try:
        return look_at_nodes(address, folders, storages)
    except (PlacementError, StorageError, OSError) as error:
        raise Problems([str(error)]) from None


def _version(package: str) -> str | None:
    import importlib.metadata  # a third of the time of --help

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
