"""The commands on the project's pages. A comment ``needs ...`` after a command names what the tests lack."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
OF_THEIR_OWN = {
    "choosing.md": "tests/sweeper/cli/test_docs.py",
    "running.md": "tests/sweeper/cli/test_docs.py",
    "extend.md": "tests/test_extend.py",
    "cluster.md": "tests/e2e/test_cluster_page.py",
    "paper.md": "tests/e2e/test_paper.py",
}
"""Pages whose commands are run by a test of their own."""
BEGIN = ("pareto", "lr-study", "leaderboard", "unlearn")
"""Commands that start trials."""
_COMMAND = re.compile(r"^(?: {4})?python -m sweeper (.+?)(?:\s+#(.*))?$")
_BENCHMARK = re.compile(r"python (benchmarks/\w+\.py[^`#|\n]*)")


@dataclass(frozen=True)
class PageCommand:
    """A command in a block of a page, with continued lines joined. ``words`` follow ``python -m sweeper``."""

    page: str
    line: int
    words: tuple[str, ...]
    comment: str

    @property
    def needs(self) -> bool:
        """Whether the command needs something that the tests lack."""
        return "needs " in self.comment

    @property
    def only_plans(self) -> bool:
        """Whether the command starts trials and reads no previous sweep, so that a dry run can test it."""
        return self.words[0] in BEGIN and not {"--from", "--reuse", "--warm-start", "--config"} & set(self.words)

    def __str__(self) -> str:
        return f"{self.page}:{self.line} {' '.join(self.words)}"


def commands() -> Iterator[PageCommand]:
    """Yield the commands of all pages."""
    for page in PAGES:
        for number, line in enumerate(page.read_text(encoding="utf-8").replace("\\\n", " ").splitlines(), start=1):
            if found := _COMMAND.match(line):
                words = re.sub(r"\s[>|<&].*$", "", found[1])
                yield PageCommand(page.name, number, tuple(shlex.split(words)), found[2] or "")


def run_by_all() -> Iterator[PageCommand]:
    """Yield the commands that need nothing and are on no page with a test of its own."""
    return (command for command in commands() if not command.needs and command.page not in OF_THEIR_OWN)


def benchmarks() -> list[tuple[str, ...]]:
    """Return the benchmark commands on the pages (script and arguments), including those in sentences and tables."""
    pages = (page.read_text(encoding="utf-8") for page in PAGES)
    return sorted({tuple(shlex.split(words)) for text in pages for words in _BENCHMARK.findall(text)})
