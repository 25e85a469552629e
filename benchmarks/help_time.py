"""Compare the run times of ``python -m sweeper --help`` and a bare interpreter: python benchmarks/help_time.py"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time


def seconds(*arguments: str) -> float:
    """Return the wall-clock seconds of one run of this interpreter."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    pairs = [(seconds("-m", "sweeper", "--help"), seconds("-c", "pass")) for _ in range(10)]
    print(f"--help             {statistics.median(a for a, _ in pairs):.3f} s (median of {len(pairs)})")
    print(f"bare interpreter   {statistics.median(b for _, b in pairs):.3f} s")
    print(f"ratio              {statistics.median(a / b for a, b in pairs):.1f}")


if __name__ == "__main__":
    main()
