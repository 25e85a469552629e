"""With ``--micro-batch``, every objective takes the same step from smaller forward passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.trainables.conftest import MakeSpec
from trainables.objectives import OBJECTIVES
from trainables.run.combined_gradient import combined_gradient
from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems


def first_gradients(spec: TrialSpec, workspace: Workspace) -> tuple[dict[str, float], list[torch.Tensor]]:
    """Return the columns and the direction of the first step, in float64."""
    run = UnlearningRun(spec, workspace)
    run.model.double()  # undone by the fixture, because all tests share the model
    [(forget, retain), *_] = run._batches.epoch(0.0, step=0, max_steps=None)
    columns, _ = combined_gradient(
        run.parameters,
        run.losses.retain_summands(retain),
        run.losses.forget_summands(forget),
        spec=spec,
        state=run._weighting_state,
        when="at step 1",
    )
    return columns, [p.grad.clone() for p in run.parameters if p.grad is not None]


@pytest.fixture
def shared(workspace: Workspace) -> Iterator[Workspace]:
    yield workspace
    workspace.model_for().float()


METHODS = (
    *("gd", "gdiff", "graddrop", "npo+ngdiff", "dpo+lossnorm", "rmu+pcgrad", "kl"),
    *(name for name in OBJECTIVES if name != "ascent"),
)


@pytest.mark.parametrize("method", METHODS)
def test_every_objective_takes_the_same_step(shared: Workspace, make_spec: MakeSpec, method: str) -> None:
    changes = {"method": "gdiff", "retain_objective": "kl"} if method == "kl" else {"method": method}
    spec, cut_spec = (make_spec(batch_size=5, micro_batch=size, **changes) for size in (None, 2))
    (columns, whole), (cut_columns, cut) = first_gradients(spec, shared), first_gradients(cut_spec, shared)
    assert trial_problems(cut_spec) == []
    assert len(whole) == len(cut) > 0
    length = torch.cat([part.flatten() for part in whole]).norm()
    gap = torch.cat([(one - other).flatten() for one, other in zip(whole, cut, strict=True)]).norm()
    assert gap <= 1e-6 * length
    assert cut_columns == pytest.approx({name: columns[name] for name in cut_columns}, rel=1e-6, abs=1e-9)
    assert spec.spec_hash == cut_spec.spec_hash
