"""Sweeps that several modules look at; each is made once, and shared between the processes of pytest-xdist."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.contract.problem import GRID, Problem, make_problem
from tests.contract.product import Done, Finished, Product, Sweep


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], None]], Path]:
    """Makes a folder once for all processes of pytest-xdist; the others wait for the first."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def make_once(name: str, make: Callable[[Path], None]) -> Path:
        folder = root / f"contract-{name}"
        with (root / f"contract-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / ".made").exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                (folder / ".made").touch()
        return folder

    return make_once


@pytest.fixture(scope="session")
def problem(shared_folder: Callable[[str, Callable[[Path], None]], Path]) -> Problem:
    """The data and a target that knows them."""
    folder = shared_folder("problem", lambda folder: make_problem(folder) and None)
    return Problem(folder / "data", folder / "target")


@pytest.fixture(scope="session")
def cache(shared_folder: Callable[[str, Callable[[Path], None]], Path]) -> Path:
    """A cache for all commands, so that a target is scored once, and the scripts of the page are bundled once."""
    return shared_folder("cache", lambda folder: None)


@pytest.fixture(scope="session")
def new_product(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Callable[..., Product]]:
    """Makes folders for commands, each with a home and an MLflow database of its own, and if asked with its own cache.

    ``new_product(name, own_cache=False)``.
    """
    made: list[Product] = []

    def make(name: str, *, own_cache: bool = False) -> Product:
        made.append(Product.in_folder(tmp_path_factory.mktemp(name), cache=None if own_cache else cache))
        return made[-1]

    yield make
    for product in made:
        product.end_processes()


@pytest.fixture(scope="session")
def product(new_product: Callable[..., Product]) -> Product:
    """Commands that need no folder of their own."""
    return new_product("commands")


@pytest.fixture(scope="session")
def reference(problem: Problem, cache: Path, shared_folder: Callable[[str, Callable[[Path], None]], Path]) -> Finished:
    """The grid, run without any disturbance. Tests read it and never change it."""

    def make(folder: Path) -> None:
        product = Product.in_folder(folder, cache=cache)
        done = product.run(*product.pareto(problem.options, folder / "reference", *GRID))
        product.end_processes(patience=60)
        (folder / "stdout").write_text(done.stdout)
        (folder / "stderr").write_text(done.stderr)

    folder = shared_folder("reference", make)
    done = Done(0, (folder / "stdout").read_text(), (folder / "stderr").read_text())
    return Finished(Product.in_folder(folder, cache=cache), Sweep(folder / "reference"), done)
