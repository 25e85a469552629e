"""A script that prepares a target. Its standard input is a socket to the driver."""

from __future__ import annotations

import sys
from multiprocessing.connection import Connection
from pathlib import Path

if __name__ == "__main__":
    folder = Path(__file__).parent
    root = folder.parents[1]
    # Import the code that the driver runs. Files of this folder must not hide top-level modules of the same names.
    sys.path[:] = [str(root), *(path for path in sys.path if path != str(folder))]

    from sweeper.execution.target_process import serve

    serve(Connection(0))
