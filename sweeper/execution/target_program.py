"""The program of the process that prepares a target. Its standard input is a socket to the driver."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from pathlib import Path

if __name__ == "__main__":
    is_forked = "torch" in sys.modules
    folder, root = Path(__file__).parent, Path(__file__).parents[2]
    sys.path[:] = [str(root), *(path for path in sys.path if path != str(folder))]  # the driver's code, not its modules

    from sweeper.execution.target_process import serve

    serve(Connection(0), is_forked=is_forked)
