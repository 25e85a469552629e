"""GPU shares from measured memory: the arithmetic, the measurements in rows, and whether another trial fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.execution.gpu_shares import (
    CONTEXT_GB,
    MARGIN,
    MAX_PER_GPU,
    GpuShares,
    equal_share,
    memory_class,
    smallest_share,
)
from sweeper.store.events import Event, Record, TrialCut, TrialEnded, TrialProposed, TrialReused, TrialStarted
from sweeper.store.state import SweepState
from tests.sweeper.conftest import outcome
from trainables.spec import TrialSpec

PEAKS = st.floats(0.0, 200.0)
SIZES = st.floats(4.0, 200.0)
SPEC = TrialSpec(method="ngdiff", batch_size=4)
ON_80 = {"status": "finished", "peak_gpu_gb": 10.0, "gpu_share": 1.0, "gpu_gb": 80.0}
IN_A_SIXTH = {"peak_gpu_gb": 9.0, "gpu_share": 0.1666, "gpu_gb": 80.0}
RETRIED = {"status": "finished", "retried_with": "micro_batch 2, eval_batch_size 16"}
FAILED = {"status": "failed", "error": "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"}


@given(PEAKS, SIZES, PEAKS, PEAKS, SIZES)
def test_trials_with_the_same_share_fill_a_gpu_and_a_share_grows_with_the_required_memory(
    peak: float, gpu: float, too_little: float, more: float, gpu_gb: float
) -> None:
    found = smallest_share(peak, gpu, more_than_gb=too_little)
    assert found in {equal_share(trials) for trials in range(1, MAX_PER_GPU + 1)}
    if found < 1.0:
        trials = int(1.0 / found + 1e-9)
        assert 9_900 < trials * round(found * 10_000) <= 10_000  # in Ray's units
        assert peak * (1.0 + MARGIN) + CONTEXT_GB <= found * gpu
        assert too_little < found * gpu
    assert smallest_share(min(peak, more), gpu) <= smallest_share(max(peak, more), gpu)
    assert smallest_share(peak, max(gpu, gpu_gb)) <= smallest_share(peak, min(gpu, gpu_gb))
    assert smallest_share(peak, gpu) <= found


def test_a_memory_class_contains_the_settings_that_determine_memory() -> None:
    alike = TrialSpec(method="pcgrad", batch_size=4, lr=0.1, seed=3, epochs=2)
    assert memory_class(SPEC) == memory_class(alike), "two gradients, no reference"
    different: list[dict[str, Any]] = [
        *({"method": "gdiff"}, {"method": "undial+ngdiff"}, {"model": "tiny-gpt2"}, {"lora_rank": 8}),
        *({"micro_batch": 1}, {"max_length": 64}, {"optimizer": "sgd"}, {"dtype": "bf16"}, {"limit": 40}),
        *({"dataset": "jsonl", "data_dir": folder} for folder in ("/short", "/long")),
    ]
    assert len({memory_class(replace(SPEC, **item)) for item in ({}, *different)}) == 1 + len(different)


class Trials:
    """GPU shares, the lines they printed, and the state of the sweep whose events they get."""

    def __init__(self, **given: Any) -> None:
        self.lines: list[str] = []
        self.shares = GpuShares(
            **{"gpus": 2.0, "gpu_gb": 80.0, "max_concurrent": 32, "say": self.lines.append, **given}
        )
        self.state = SweepState()

    def event(self, event: Event) -> None:
        self.state.apply(Record(0, 0.0, event))
        self.shares.apply(event, self.state)

    def end(self, values: dict[str, Any], *, reused_from: str = "") -> float:
        """End a trial, and return the share of the next trial with its spec."""
        trial_id = f"{len(self.state.trials):05d}"
        self.event(TrialProposed(trial_id, SPEC.row()))
        if reused_from:
            self.event(TrialReused(trial_id, reused_from))
        self.event(TrialEnded(trial_id, outcome(**values)))
        return self.shares.share_of(SPEC)


@pytest.mark.parametrize(
    ("outcomes", "shares", "lines"),
    [
        ([ON_80 | {"peak_gpu_gb": peak} for peak in (10.0, 20.0, 5.0)], [0.1666, 0.3333, 0.3333], 2),
        # More than the share was needed, and at last more than a whole GPU.
        *(
            ([ON_80, IN_A_SIXTH | end, IN_A_SIXTH | end | {"gpu_share": 1.0}], [0.1666, 0.2, 1.0], 3)
            for end in (RETRIED, FAILED)
        ),
        # A trial that was not evaluated measured only a lower limit.
        (
            [ON_80 | {"status": "diverged"}, {"status": "failed"}, ON_80 | {"status": "stopped", "peak_gpu_gb": 5.0}],
            [1.0, 1.0, 0.1666],
            1,
        ),
    ],
    ids=["highest peak", "retried", "failed", "not evaluated"],
)
def test_a_share_follows_the_rows_of_its_class(outcomes: list[dict[str, Any]], shares: list[float], lines: int) -> None:
    trials = Trials()
    assert [trials.end(outcome) for outcome in outcomes] == shares
    assert trials.shares.share_of(TrialSpec(method="gdiff", batch_size=4)) == 1.0, "the spec is in another class"
    assert trials.shares.concurrent == 2 * int(1 / shares[-1])
    assert len(trials.lines) == lines


def test_rows_of_previous_sweeps_determine_the_share_on_a_gpu_of_known_size() -> None:
    row = {name: str(value) for name, value in {**SPEC.row(), **ON_80}.items() if value is not None}
    trials, unknown = Trials(gpu_gb=40.0), Trials(gpu_gb=None)
    trials.shares.learn([row | {"peak_gpu_gb": ""}, row | {"method": "of a plug-in"}])
    assert trials.shares.share_of(SPEC) == 1.0
    for found in (trials.shares, unknown.shares):
        found.learn([row])
        found.print_new()
    assert trials.shares.share_of(SPEC) == 0.3333, "10 GB on a GPU of 40 GB, although measured on another GPU"
    assert ["1/3" in line for line in trials.lines] == [True]
    assert unknown.end(ON_80, reused_from="other/00000") == 1.0, "the GPU of another sweep may have another size"
    assert unknown.end(ON_80) == 0.1666


def test_a_paused_or_ended_trial_holds_no_gpu() -> None:
    trials = Trials(gpus=1.0)
    for trial_id in ("00000", "00001"):
        trials.event(TrialProposed(trial_id, SPEC.row()))
        trials.shares.reserve(trial_id, 0.5)
    course = [trials.shares.has_room(0.5)]
    for event in (TrialCut("00001", waits=True), TrialStarted("00001"), TrialEnded("00001", outcome())):
        trials.event(event)
        course.append(trials.shares.has_room(0.5))
    assert course == [False, True, False, True]


def test_a_trial_always_fits_if_no_trial_runs() -> None:
    assert Trials(gpus=0.5).shares.has_room(1.0), "otherwise the trial would never start"
