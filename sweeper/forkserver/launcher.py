"""Started by Ray in place of Python: has the fork server do what the command line asks for, and ends with it.

Without an answer this process becomes that Python. It imports little, for each worker waits for it.
"""

import json
import os
import socket
import sys
from pathlib import Path

_PATIENCE = 45.0  # seconds; Ray's own, for a worker to say that it is there, is 60


def main(server: str, command: list[str]) -> None:
    """Run ``command``, a script and its arguments, in a fork of the process that listens at ``server``."""
    link = socket.socket(socket.AF_UNIX)
    link.settimeout(_PATIENCE)
    try:
        link.connect(server)
        asked = json.dumps({"command": command, "folder": os.getcwd(), "environment": dict(os.environ), **standing()})
        socket.send_fds(link, [b"\0"], [0, 1, 2])
        link.sendall(asked.encode() + b"\n")
        is_forked = link.recv(1)
    except OSError:
        is_forked = b""
    if not is_forked:
        os.execv(sys.executable, [sys.executable, *command])
    link.settimeout(None)
    link.recv(1)  # nothing: it ends with the fork


def standing() -> dict[str, int]:
    """Where the kernel has a process; Ray lets workers stand behind itself, each at the head of a group of its own."""
    return {
        "leads": os.getpgrp() == os.getpid(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
