"""Shares of a GPU by measured memory: the arithmetic, what is learned from rows, and which trial may begin."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.execution.gpu_shares import CONTEXT_GB, MARGIN, MOST, GpuShares, memory_class, part, share
from trainables.spec import TrialSpec

PEAKS = st.floats(0.0, 200.0)
SIZES = st.floats(4.0, 200.0)
SPEC = TrialSpec(method="ngdiff", batch_size=4)
ON_80 = {"status": "finished", "peak_gpu_gb": 10.0, "gpu_share": 1.0, "gpu_gb": 80.0}


@given(PEAKS, SIZES, PEAKS)
def test_trials_fill_a_gpu_evenly_and_each_fits_into_its_share_with_the_margin(
    peak: float, gpu: float, too_little: float
) -> None:
    found = share(peak, gpu, more_than_gb=too_little)
    assert found == 1.0 or found in {part(trials) for trials in range(2, MOST + 1)}
    if found < 1.0:
        trials = int(1.0 / found + 1e-9)
        assert trials * round(found * 10_000) <= 10_000  # as Ray counts
        assert trials * found > 0.99
        assert peak * (1.0 + MARGIN) + CONTEXT_GB <= found * gpu
        assert too_little < found * gpu


@given(PEAKS, PEAKS, SIZES, SIZES)
def test_a_share_grows_with_the_memory_needed_and_not_with_the_gpu(
    one: float, other: float, gpu: float, more: float
) -> None:
    assert share(min(one, other), gpu) <= share(max(one, other), gpu)
    assert share(one, max(gpu, more)) <= share(one, min(gpu, more))
    assert share(one, gpu) <= share(one, gpu, more_than_gb=other)


def test_shares_are_parts_from_a_sixteenth_to_a_whole_gpu() -> None:
    assert (share(0.0, 80.0), share(10.0, 80.0), share(30.0, 80.0)) == (0.0625, 0.1666, 0.5)
    assert share(40.0, 80.0) == share(500.0, 80.0) == 1.0


def test_a_class_is_what_decides_memory() -> None:
    alike = TrialSpec(method="pcgrad", batch_size=4, lr=0.1, seed=3, epochs=2)
    assert memory_class(SPEC) == memory_class(alike), "two gradients, no reference"
    different: list[dict[str, Any]] = [
        *({"method": "gdiff"}, {"method": "undial+ngdiff"}, {"model": "tiny-gpt2"}, {"lora_rank": 8}),
        *({"micro_batch": 1}, {"max_length": 64}, {"optimizer": "sgd"}, {"dtype": "bf16"}),
        *({"gradient_checkpointing": True}, {"dataset": "jsonl", "data_dir": "/short"}, {"limit": 40}),
        {"dataset": "jsonl", "data_dir": "/long"},
    ]
    classes = {memory_class(spec) for spec in (SPEC, *(replace(SPEC, **item) for item in different))}
    assert len(classes) == 1 + len(different)


def shares(**given: Any) -> GpuShares:
    return GpuShares(**{"gpus": 2.0, "gpu_gb": 80.0, "most": 32, **given})


def test_the_first_trials_take_whole_gpus_and_later_ones_what_was_measured() -> None:
    said: list[str] = []
    found = shares(say=said.append)
    assert found.share_of(SPEC) == 1.0
    found.take("00000", 1.0)
    found.take("00001", 1.0)
    assert not found.has_room(), "both GPUs are taken"
    found.ended("00000", SPEC, ON_80)
    assert found.share_of(SPEC) == found.widest == 0.1666
    assert found.at_once == 12
    assert found.share_of(TrialSpec(method="gdiff", batch_size=4)) == 1.0, "of another class"
    for number in range(2, 8):
        assert found.has_room(0.1666)
        found.take(f"{number:05d}", 0.1666)
    assert not found.has_room(0.1666), "six on the one GPU, the other still whole"
    (line,) = said
    assert all(fact in line for fact in ("00000", "ngdiff", "10.00 GB", "80.0 GB", "1/6"))


def test_a_higher_peak_raises_the_share_and_a_lower_one_does_not_lower_it() -> None:
    said: list[str] = []
    found = shares(say=said.append)
    for trial_id, peak in (("00000", 10.0), ("00001", 20.0), ("00002", 5.0)):
        found.ended(trial_id, SPEC, ON_80 | {"peak_gpu_gb": peak})
    assert found.share_of(SPEC) == 0.3333
    assert len(said) == 2, "a line where something has changed"


@pytest.mark.parametrize(
    "row",
    [
        {"status": "finished", "retried_with": "micro_batch 2, eval_batch_size 16"},
        {"status": "failed", "error": "OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"},
    ],
    ids=["was retried", "failed"],
)
def test_after_one_ran_out_of_memory_in_its_share_the_others_get_more(row: dict[str, Any]) -> None:
    found = shares()
    found.ended("00000", SPEC, ON_80)
    found.ended("00001", SPEC, {"peak_gpu_gb": 9.0, "gpu_share": 0.1666, "gpu_gb": 80.0, **row})
    assert found.share_of(SPEC) == 0.2
    found.ended("00002", SPEC, {"peak_gpu_gb": 9.0, "gpu_share": 1.0, "gpu_gb": 80.0, **row})
    assert found.share_of(SPEC) == 1.0, "where a whole GPU was too little, too"


def test_one_that_ended_before_it_was_evaluated_has_measured_nothing() -> None:
    found = shares()
    found.ended("00000", SPEC, ON_80 | {"status": "diverged"})
    found.ended("00001", SPEC, {"status": "failed", "error": "LoadError: no"})
    assert found.share_of(SPEC) == 1.0
    found.ended("00002", SPEC, ON_80 | {"status": "stopped", "peak_gpu_gb": 5.0})
    assert found.share_of(SPEC) == 0.1666, "and yet its peak counts"


def test_rows_of_earlier_sweeps_are_enough_on_a_gpu_of_known_size() -> None:
    row = {name: str(value) for name, value in {**SPEC.row(), **ON_80}.items() if value is not None}
    found = shares(gpu_gb=40.0)
    found.restore([row | {"peak_gpu_gb": ""}, row | {"method": "of a plug-in"}])
    assert found.share_of(SPEC) == 1.0
    found.restore([row])
    assert found.share_of(SPEC) == 0.3333, "10 GB on 40, whatever it was measured on"
    said: list[str] = []
    found.say = said.append
    found.begin()
    assert len(said) == 1
    assert "1/3" in said[0]
    unknown = shares(gpu_gb=None)
    unknown.restore([row])
    assert unknown.share_of(SPEC) == 1.0
    unknown.ended("00001", SPEC, row | {"reused_from": "other/00000"})
    assert unknown.share_of(SPEC) == 1.0, "the other sweep's GPU says nothing of this one"
    unknown.ended("00002", SPEC, ON_80)
    assert unknown.share_of(SPEC) == 0.1666


def test_one_that_waits_at_a_rung_holds_no_gpu() -> None:
    found = shares(gpus=1.0)
    found.take("00000", 0.5)
    found.take("00001", 0.5)
    assert not found.has_room()
    found.paused("00001")
    assert found.has_room(0.5)
    found.started("00001")
    assert not found.has_room()
    found.ended("00001", SPEC, {"status": "finished"})
    assert found.has_room(0.5)
    assert shares(gpus=0.5).has_room(1.0), "where nothing runs; otherwise it would never begin"
    found = shares(gpus=4.0, most=2)
    found.take("00000", 0.25)
    found.take("00001", 0.25)
    assert not found.has_room(0.25), "no more than at most"
