"""Infrastructure failures are recognised by the messages of operating systems, libraries and Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainables.worker.failures import (
    NO_DISK,
    NO_MEMORY,
    NO_SPACE,
    NO_STORAGE,
    NODE_LOST,
    WORKER_DIED,
    infrastructure_failure,
    is_infrastructure_failure,
    one_line,
    write_log,
)

KILLED = """The actor died unexpectedly before finishing this task.
	class_name: UnlearningTrainable
	pid: 6517
	ip: 192.0.2.2
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed \
by the OOM killer due to high memory usage, (2) ray stop --force was called."""
OUT_OF_MEMORY = """1 worker(s) were killed due to the node running low on memory. Memory on the node (IP: \
192.0.2.2, ID: 0a1b) was 22.49GB used / 23.54GB limit (0.95)
OOM kill reason: Memory usage exceeded threshold
Selected to kill: (Actor(42): pid=7168, actual memory used=0.37GB)
Consider provisioning more memory on this node."""
LOST = """The actor died unexpectedly before finishing this task.
The actor died because its node has died. Node Id: 8b64
	the actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats"""


@pytest.mark.parametrize(
    ("text", "cause", "fact"),
    [
        (KILLED, WORKER_DIED, "connection error code 2. End of file."),
        (OUT_OF_MEMORY, NO_MEMORY, "22.49GB of 23.54GB"),
        (LOST, NODE_LOST, "health check failed"),
        ("StorageError: AWS Error NETWORK_CONNECTION: curlCode: 7", NO_STORAGE, "curlCode: 7"),
        ("OSError: [Errno 28] No space left on device", NO_SPACE, "OSError: [Errno 28]"),
        ("SafetensorError: I/O error: No space left on device (os error 28)", NO_SPACE, "SafetensorError"),
        ("RuntimeError: PytorchStreamWriter failed writing file data/0: file write failed", NO_SPACE, "data/0"),
        ("OSError: [Errno 122] Disk quota exceeded: '/home'", NO_SPACE, "'/home'"),
        ("OSError: [Errno 5] Input/output error", NO_DISK, "OSError: [Errno 5]"),
    ],
    ids=["killed", "memory", "node", "storage", "write", "safetensors", "torch", "quota", "disk"],
)
def test_an_error_of_the_infrastructure_is_one_line_with_its_cause_first(text: str, cause: str, fact: str) -> None:
    line = one_line(text)
    assert infrastructure_failure(text) == cause
    assert line.startswith(f"{cause}: ")
    assert fact in line
    assert "\n" not in line
    assert is_infrastructure_failure("failed", f"{line} (see logs/00000.txt)"), "read again from the table"
    assert one_line(line) == line


@pytest.mark.parametrize(
    "text",
    [
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "DataError: the prompt of 'Where does Ada live?' takes 8 tokens",
        "FileNotFoundError: [Errno 2] No such file or directory: 'data'",
        "RuntimeError: shapes 28 and 5 differ",
        "",
    ],
)
def test_an_error_of_the_trial_itself_is_a_result(text: str) -> None:
    assert infrastructure_failure(text) is None
    assert not is_infrastructure_failure("failed", text)
    assert one_line(text) == text


def test_the_log_of_a_failed_trial_has_the_error_and_the_end_of_its_workers_output(tmp_path: Path) -> None:
    printed = tmp_path / "worker-1.err"
    printed.write_text("x" * 200_000 + "\nthe last line\n")
    file = write_log(tmp_path, "00003", KILLED, printed, tmp_path / "not there")
    assert file == "logs/00003.txt"
    text = (tmp_path / file).read_text()
    assert text.startswith(KILLED)
    assert text.endswith("the last line\n")
    assert len(text) < 70_000
