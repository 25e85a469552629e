"""The licence of a model comes from its card, its configuration or a file, or is unknown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.export.licence import Licence, licence_of


@pytest.mark.parametrize(
    ("card", "config", "name", "source"),
    [
        ("---\nlicense: mit\ntags: [a]\n---\n# A model", {"license": "other"}, "mit", "README.md"),
        ("---\nlicense: other\nlicense_name: llama2\n---\n", {}, "llama2", "README.md"),
        ("# A model without front matter", {"license": "apache-2.0"}, "apache-2.0", "config.json"),
        ("---\n[torn\n---\n", {"license": "mit"}, "mit", "config.json"),
    ],
)
def test_a_licence_is_read_from_the_card_then_from_the_configuration(
    tmp_path: Path, card: str, config: dict[str, str], name: str, source: str
) -> None:
    (tmp_path / "README.md").write_text(card)
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = licence_of(tmp_path)
    assert (found.name, found.source) == (name, source)


def test_licence_files_are_found_and_without_any_the_licence_is_unknown(tmp_path: Path) -> None:
    assert licence_of(None) == licence_of(tmp_path) == Licence()
    (tmp_path / "LICENSE.md").write_text("Do as you please.")
    assert licence_of(tmp_path) == Licence(files=(tmp_path / "LICENSE.md",))
