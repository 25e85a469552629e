"""Only the folders for text, vision and data distinguish kinds of data. All other code uses the modality."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROOMS = ("trainables/modality", "trainables/text", "trainables/vision", "trainables/data", "trainables/testing")
BESIDE = ("trainables/scoring/classification.py",)
"""The evaluator of image classifiers."""

KINDS = re.compile(
    r"ImageData|ImageSet|IMAGE_|is_image|isinstance\([^)]*(UnlearningData|Example)"
    r"|[=!]= *\(?\"(language|vision|image|token)\"|\bin \(\"(language|vision)\"",
)


def test_nobody_else_branches_on_the_kind_of_data() -> None:
    found = [
        f"{path}:{number}: {line.strip()}"
        for room in ("trainables", "sweeper", "analysis", "search_spaces", "benchmarks")
        for path in sorted((ROOT / room).rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(ROOMS) and name not in BESIDE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if KINDS.search(line)
    ]
    assert found == []
