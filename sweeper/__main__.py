"""The entry point of ``python -m sweeper``."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

from sweeper.store.version import PACKAGES

if TYPE_CHECKING:
    from types import FrameType


def start() -> None:
    """Run the command line. If the user presses Ctrl-C during the imports, exit with code 130."""
    _open_closed_streams()
    if problem := _platform_problem():
        _refuse(problem)
    _set_wait_policy()
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is signal.default_int_handler:  # a background job of a shell ignores SIGINT
        signal.signal(signal.SIGINT, _exit_on_sigint)
    try:
        from sweeper.cli.main import main

        signal.signal(signal.SIGINT, previous_handler)
        main()
    except SystemExit as exit_request:
        if isinstance(exit_request.code, int | None):
            _exit_fast(exit_request.code or 0)
        raise
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        is_own_or_standard = package in PACKAGES or package in sys.stdlib_module_names
        if not package or is_own_or_standard:
            raise
        _refuse(
            f"this Python ({sys.executable}) lacks the package '{error.name}': activate the project's environment with "
            "'source .venv/bin/activate'; 'make env' creates this environment; docs/install.md lists other ways"
        )


def _exit_fast(code: int) -> None:
    # os._exit skips the unloading of torch, Ray and MLflow, which takes a second.
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # the reader of the pipe has exited
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _open_closed_streams() -> None:
    """Replace each standard stream that the shell has closed (``>&-``) by the null device."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null_descriptor = os.open(os.devnull, os.O_RDWR)
            os.dup2(null_descriptor, descriptor)
            if null_descriptor != descriptor:
                os.close(null_descriptor)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, open(descriptor, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115


def _set_wait_policy() -> None:
    """Let the threads of OpenMP sleep while they wait for each other, unless the user has set an option of OpenMP.

    Threads that spin would hold the cores that other programs need (benchmarks/busy_machine.py). OpenMP reads the
    variable when torch is imported, and child processes inherit it.
    """
    if not any(name.startswith(("OMP_", "GOMP_", "KMP_")) for name in os.environ):
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"


def _platform_problem() -> str:
    if sys.version_info < (3, 11):  # noqa: UP036 (outside the environment, Python may be older)
        return f"Python 3.11 or newer is needed, but {sys.executable} is Python {sys.version.split()[0]}"
    if sys.platform == "win32":
        return "Windows is supported only through WSL 2 (docs/install.md)"
    return ""


def _refuse(problem: str) -> None:
    print(f"error: {problem}", file=sys.stderr)
    sys.exit(1)


def _exit_on_sigint(signal_number: int, frame: FrameType | None) -> None:
    # Raise no exception: during an import, an exception could be replaced by another error.
    os.write(2, b"interrupted\n")
    os._exit(130)


if __name__ == "__main__":
    start()
