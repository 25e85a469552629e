"""The models of an audit are scored like stored models."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from trainables.spec import TrialSpec
from trainables.worker import process


@pytest.mark.parametrize("saw", [True, False])
def test_the_answers_of_an_audit_model_are_judged_with_the_target(monkeypatch: pytest.MonkeyPatch, saw: bool) -> None:
    """Otherwise, no answer of the pool would count as garbled, but answers of the trials would."""
    preparation = Mock(model=lambda: (Path("saw"), False), retain_model=lambda: Path("never-saw"))
    monkeypatch.setattr("trainables.target.prepare.Preparation", lambda **_: preparation)
    workspace, target = Mock(), Mock(retain=None)
    workspace.evaluator().scores().loss_metrics.return_value = {"forget_loss": 2.0}
    monkeypatch.setattr(process, "worker_workspace", lambda *_: workspace)
    monkeypatch.setattr(process, "local_target", lambda *_: target)
    monkeypatch.setattr(process, "select_metrics", lambda *_, **__: ())
    metrics, _ = process.measure_finetuned_model(target, TrialSpec(), saw=saw, cpus=1.0, gpus=0.0)
    assert metrics == {"forget_loss": 2.0}
    assert workspace.modality.load_model.call_args.args == (Path("saw" if saw else "never-saw"),)
    assert workspace.evaluator().scores.call_args.kwargs["target"] is workspace.target_model
