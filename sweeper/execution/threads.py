"""Choose the number of threads for torch, so that other programs on the machine do not slow it down.

Torch's threads wait for each other after each operation. If another program holds one of the cores, all threads wait
until it lets go, so one thread is faster than two on a machine without a free core (benchmarks/busy_machine.py).
"""

from __future__ import annotations

import os
import time

import psutil

_SAMPLE_SECONDS = 0.2


def free_threads() -> int:
    """Return OMP_NUM_THREADS or, if not set, the number of cores that other processes leave free, at least 1.

    A core counts as used if it was used both during the last minute and in the last moment. The result is at most the
    number of physical cores that this process may use.
    """
    if (threads := given_threads()) is not None:
        return threads
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count() or 1
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    if cores == 1:
        return 1
    used = min(os.getloadavg()[0], _used_by_others())
    free = (psutil.cpu_count() or cores) - used
    return max(1, min(cores, round(free)))


def given_threads() -> int | None:
    """Return the number of threads in OMP_NUM_THREADS, or None if the user has not set it."""
    text = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(text) if text.isdecimal() and int(text) > 0 else None


def use_free_threads() -> None:
    """Let torch use :func:`free_threads` threads in this process."""
    import torch

    torch.set_num_threads(free_threads())


def _used_by_others() -> float:
    """Return the number of CPUs that other processes use now. Children of this process count as its own."""
    all_before, own_before, start = _busy_seconds(), _own_seconds(), time.perf_counter()
    time.sleep(_SAMPLE_SECONDS)
    seconds = time.perf_counter() - start
    used = _busy_seconds() - all_before - (_own_seconds() - own_before)
    return max(0.0, used / seconds)


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_seconds() -> float:
    process = psutil.Process()
    seconds = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            seconds += sum(member.cpu_times()[:2])
        except psutil.Error:  # the child has just ended
            continue
    return seconds
