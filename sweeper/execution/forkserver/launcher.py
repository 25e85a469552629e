"""Started by Ray in place of Python: has the fork server do what the command line asks for, and ends with it.

Without an answer this process becomes that Python. It imports little, for each worker waits for it.
"""

import json
import os
import resource
import socket
import sys
from pathlib import Path

_PATIENCE = 20.0  # seconds; Ray's own, for a worker to say that it is there, is 60


def main(server: str, command: list[str]) -> None:
    """Run ``command``, a script and its arguments, in a fork of the process that listens at ``server``."""
    link = socket.socket(socket.AF_UNIX)
    if not has_forked(link, server, command):
        os.execv(sys.executable, [sys.executable, *command])
    link.settimeout(None)
    link.recv(1)  # nothing: it ends with the fork


def has_forked(link: socket.socket, server: str, command: list[str]) -> bool:
    """Whether the command runs in a fork, at the other end of the ``link``; if not it never will."""
    link.settimeout(_PATIENCE)
    try:
        link.connect(server)
        asked = {"command": command, "folder": os.getcwd(), "environment": dict(os.environ), **standing()}
        socket.send_fds(link, [b"\0"], [0, 1, 2])
        link.sendall(json.dumps(asked).encode() + b"\n")
        try:
            return bool(link.recv(1))
        except TimeoutError:
            link.shutdown(socket.SHUT_RD)  # a fork that answers now fails at it, unless it just has
            return bool(link.recv(1))
    except OSError:
        return False


def standing() -> dict[str, object]:
    """Where the kernel has a process; Ray lets workers stand behind itself, each at the head of a group of its own."""
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {
        "leads": os.getpgrp() == os.getpid(),
        "nice": os.getpriority(os.PRIO_PROCESS, 0),
        "oom_score_adj": int(Path("/proc/self/oom_score_adj").read_text()),
        "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
