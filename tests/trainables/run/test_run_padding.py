"""A run reports how much of its training batches was padding, counted here on the attention masks it computes with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.text.tokens import Batch

MakeSpec = Callable[..., TrialSpec]


@pytest.mark.parametrize("method", ["gdiff", "ngdiff", "gd", "ga"])
def test_the_share_is_that_of_the_batches_the_run_computed_with(
    workspace: Workspace, make_spec: MakeSpec, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    seen: list[Batch] = []

    make_batch = workspace.batch

    def watched(*arguments: Any) -> Batch:
        seen.append(make_batch(*arguments))
        return seen[-1]

    monkeypatch.setattr(workspace, "batch", watched)
    shares = []
    for report in UnlearningRun(make_spec(method=method, batch_size=3), workspace):
        ones = sum(int(batch.attention_mask.sum()) for batch in seen)
        shares.append((report.padding, 1 - ones / sum(batch.input_ids.numel() for batch in seen)))
        assert report.row()["padding"] == report.outcome()["padding"] == report.padding
    assert len(seen) == (6 if method in ("gd", "ga") else 12)
    for reported, counted in shares:
        assert reported == pytest.approx(counted, abs=1e-12)
        assert (counted == 0.0) == (method == "ga"), "all forget sequences are equally long, the retain ones are not"


def test_probes_of_the_learning_rate_are_no_training_batches(workspace: Workspace, make_spec: MakeSpec) -> None:
    def shares(**changes: Any) -> Sequence[float | None]:
        return [report.padding for report in UnlearningRun(make_spec(batch_size=3, **changes), workspace)]

    assert shares(auto_lr="on", auto_lr_every=1) == shares()
