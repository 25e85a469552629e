"""A killed fine-tuning continues from its last saved state, to bit-identical weights."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from search_spaces.durable import Throttle
from tests.facts import assert_names
from trainables.saved_state import load_state_file
from trainables.target.training_state import TrainingState


def _train(path: Path, *, until: int, killed_after: int | None = None, **throttle: float) -> tuple[Tensor, list[int]]:
    """Epochs of AdamW under dropout, which draws on the random state; returns the weights and the epochs run here."""
    state = TrainingState(path, Throttle(**(throttle or {"share": math.inf})))
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    run = []
    for epoch in range(1 + state.restore(model, optimizer), until + 1):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).square().sum().backward()
        optimizer.step()
        run.append(epoch)
        state.save(model, optimizer, epoch=epoch)
        if epoch == killed_after:
            raise KeyboardInterrupt
    return model[0].weight.detach().clone(), run


def test_a_killed_training_ends_with_the_same_weights_and_its_state_can_be_discarded(tmp_path: Path) -> None:
    whole, _ = _train(tmp_path / "whole.pt", until=6)
    with pytest.raises(KeyboardInterrupt):
        _train(tmp_path / "a" / "part.pt", until=6, killed_after=3)
    rest, epochs = _train(tmp_path / "a" / "part.pt", until=6)
    assert epochs == [4, 5, 6]
    assert torch.equal(rest, whole)
    for path in tmp_path.rglob("*.pt"):
        TrainingState(path, Throttle(share=math.inf)).discard()
    assert not list(tmp_path.rglob("*.pt"))


@pytest.mark.parametrize("kept", [None, 0.0, 0.5, 0.99, "text"])
def test_an_absent_or_torn_state_starts_again_without_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: float | str | None
) -> None:
    path = tmp_path / "state.pt"
    torch.save({"epoch": 3, "model": torch.arange(1000)}, path)
    whole = path.read_bytes()
    if kept is None:
        path.unlink()
    else:
        path.write_bytes(b"half a file" if isinstance(kept, str) else whole[: int(kept * len(whole))])
    assert load_state_file(path) is None
    assert _train(path, until=2)[1] == [1, 2]
    assert caplog.messages == []


def test_a_whole_state_that_cannot_be_read_starts_again_with_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.pt"
    torch.save({"epoch": 3, "where": Path("folder")}, path)  # no tensor or number: refused by weights_only
    assert _train(path, until=2)[1] == [1, 2]
    (message,) = caplog.messages
    assert_names(message, path, "UnpicklingError")
    assert "\n" not in message


def test_a_state_is_not_saved_before_it_is_due(tmp_path: Path) -> None:
    _train(tmp_path / "state.pt", until=2, share=0.02, pause=3600.0)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_written_does_not_stop_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _train(tmp_path / "file" / "state.pt", until=2)[1] == [1, 2]
