"""Seeds in words."""

from __future__ import annotations

from collections.abc import Iterable


def seeds_in_words(seeds: Iterable[int]) -> str:
    """``seed 0``, ``seeds 1, 2``, ``seeds 0 to 7, 9``; of none ``no seed``."""
    runs: list[list[int]] = []
    for seed in sorted(seeds):
        if runs and seed == runs[-1][-1] + 1:
            runs[-1].append(seed)
        else:
            runs.append([seed])
    told = (f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return f"seed{'s' if sum(map(len, runs)) > 1 else ''} {', '.join(told)}" if runs else "no seed"
