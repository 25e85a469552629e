"""A saved state that is missing, incomplete or damaged is not used."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch

from tests.facts import assert_names
from trainables.saved_state import load_state_file, save_state_file


@pytest.mark.parametrize("kept", [None, 0.0, 0.5, 0.99, "text"])
def test_an_absent_or_torn_state_is_ignored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kept: float | str | None
) -> None:
    path = tmp_path / "state.pt"
    if kept is not None:
        torch.save({"epoch": 3, "model": torch.arange(1000)}, path)
        whole = path.read_bytes()
        path.write_bytes(b"half a file" if isinstance(kept, str) else whole[: int(kept * len(whole))])
    assert load_state_file(path) is None
    assert len(caplog.messages) == (kept is not None)


@pytest.mark.parametrize(("part", "fact"), [(Path("folder"), "UnpicklingError"), (torch.arange(1000), "damaged")])
def test_a_whole_state_that_cannot_be_used_is_ignored_with_a_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, part: object, fact: str
) -> None:
    """torch reads zeroed bytes without an error, so the run would continue from wrong numbers."""
    path = tmp_path / "state.pt"
    torch.save({"epoch": 3, "part": part}, path)
    if fact == "damaged":
        assert load_state_file(path) is not None
        with zipfile.ZipFile(path) as archive:
            (data,) = [item for item in archive.infolist() if item.filename.endswith("data/0")]
        with path.open("r+b") as file:
            file.seek(data.header_offset + 1000)
            file.write(bytes(200))
    assert load_state_file(path) is None
    (message,) = caplog.messages
    assert_names(message, path, fact)
    assert "\n" not in message


def test_a_state_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    save_state_file({"epoch": 1}, tmp_path / "file" / "state.pt")
