"""Where Ray writes down what happens on this machine, while it runs."""

from __future__ import annotations

import re
from pathlib import Path


def ray_logs() -> Path | None:
    """The folder of its logs; None where it does not run."""
    import ray

    node = ray._private.worker._global_node if ray.is_initialized() else None
    return Path(node.get_session_dir_path()) / "logs" if node is not None else None


def worker_logs(text: str) -> list[Path]:
    """What a dead worker printed, where it ran on this machine; ``text`` is Ray's, which names its process."""
    found = re.search(r"^\s*pid[:=] ?(\d+)", text, re.MULTILINE) or re.search(r"\bpid=(\d+)", text)
    logs = ray_logs()
    return sorted(logs.glob(f"worker-*-{found[1]}.*")) if found is not None and logs is not None else []
