"""A fine-tuning that was killed goes on from its last saved state, to the same weights bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from search_spaces.durable import Throttle
from trainables.target.training_state import TrainingState, load_state_file


class Killed(Exception):
    pass


def _train(state: TrainingState, *, until: int, killed_after: int | None = None) -> tuple[torch.Tensor, list[int]]:
    """Epochs of AdamW under dropout, which draws on the random state; returns the weights and the epochs run here."""
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
            raise Killed
    return model[0].weight.detach().clone(), run


def test_a_killed_training_ends_with_the_same_weights(tmp_path: Path) -> None:
    whole, _ = _train(TrainingState(tmp_path / "whole.pt", Throttle(share=math.inf)), until=6)
    with pytest.raises(Killed):
        _train(TrainingState(tmp_path / "a" / "part.pt", Throttle(share=math.inf)), until=6, killed_after=3)
    rest, epochs = _train(TrainingState(tmp_path / "a" / "part.pt", Throttle(share=math.inf)), until=6)
    assert epochs[-1] == 6
    assert epochs[0] > 1
    assert torch.equal(rest, whole)


@pytest.mark.parametrize("kept", [None, 0.0, 0.5, 0.99, "text"])
def test_an_absent_or_torn_state_is_as_none_without_a_word(
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
    assert _train(TrainingState(path, Throttle(share=math.inf)), until=2)[1] == [1, 2]
    assert caplog.messages == []


def test_a_whole_state_that_cannot_be_read_is_told_and_the_training_starts_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state.pt"
    torch.save({"epoch": 3, "where": Path("folder")}, path)  # no tensor or number: refused by weights_only
    assert _train(TrainingState(path, Throttle(share=math.inf)), until=2)[1] == [1, 2]
    (message,) = caplog.messages
    assert f"{path} cannot be read, so its run starts anew: UnpicklingError" in message
    assert "\n" not in message


def test_a_state_is_not_saved_before_it_is_due(tmp_path: Path) -> None:
    _train(TrainingState(tmp_path / "state.pt", Throttle(share=0.02, pause=3600.0)), until=2)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_refuses_costs_the_state_and_not_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    state: Any = TrainingState(tmp_path / "file" / "state.pt", Throttle(share=math.inf))
    assert _train(state, until=2)[1] == [1, 2]


def test_a_finished_training_leaves_no_state(tmp_path: Path) -> None:
    state = TrainingState(tmp_path / "state.pt", Throttle(share=math.inf))
    _train(state, until=2)
    state.discard()
    assert list(tmp_path.iterdir()) == []
