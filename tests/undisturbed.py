"""A trial of a sweep, run again in this process and without a disturbance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.product import Sweep

if TYPE_CHECKING:
    from trainables.run.run import UnlearningRun


@contextmanager
def run_of(sweep: Sweep, row: Mapping[str, str], *, cache: Path) -> Iterator[UnlearningRun]:
    """Yield a run with the settings and the seed of a trial's row. Meanwhile, torch has one thread, as in a worker.

    Args:
        cache: the project's folder in the cache of the command that ran the sweep.
    """
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.run.workspace import Workspace
    from trainables.spec import TrialSpec
    from trainables.target.prepare import prepare_target

    base = TrialSpec.from_dict(sweep.json("sweep.json")["settings"]["base"])
    target = prepare_target(base, cache=cache, device="cpu")
    asked = {"method": row["method"], "lr": float(row["lr"]), "seed": int(row["seed"])}
    options = {"c": float(row["c"])} if row["c"] else {}
    spec = TrialSpec.from_dict(base.to_dict() | asked | {"options": options, "target_key": target.key})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield UnlearningRun(spec, Workspace(target, device="cpu"))
    finally:
        torch.set_num_threads(threads)
