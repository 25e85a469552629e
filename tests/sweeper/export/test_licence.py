"""A licence is told where a folder or a configuration says one, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.export.licence import licence_of


@pytest.mark.parametrize(
    ("card", "config", "name", "source"),
    [
        ("---\nlicense: mit\ntags: [a]\n---\n# A model", {"license": "other"}, "mit", "README.md"),
        ("---\nlicense: other\nlicense_name: llama2\n---\n", {}, "llama2", "README.md"),
        ("# A model without front matter", {"license": "apache-2.0"}, "apache-2.0", "config.json"),
        ("---\n[torn\n---\n", {"license": "mit"}, "mit", "config.json"),
    ],
)
def test_it_is_read_from_the_card_then_from_the_configuration(
    tmp_path: Path, card: str, config: dict[str, str], name: str, source: str
) -> None:
    (tmp_path / "README.md").write_text(card)
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = licence_of(tmp_path)
    assert found.name == name
    assert source in found.words
    assert "unknown" not in found.words


def test_a_file_of_that_name_is_taken_along(tmp_path: Path) -> None:
    (tmp_path / "LICENSE.md").write_text("Do as you please.")
    found = licence_of(tmp_path)
    assert found.name is None
    assert found.files == (tmp_path / "LICENSE.md",)
    assert found.words == "Its LICENSE.md is in this folder."


def test_where_nobody_says_one_it_is_unknown(tmp_path: Path) -> None:
    assert licence_of(None).words == licence_of(tmp_path).words
    assert "unknown" in licence_of(tmp_path).words
