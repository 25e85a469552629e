"""The commands of docs/paper.md at tiny scale: small models and data instead of those of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.pages import BEGIN, PageCommand, commands

COMMANDS = [command for command in commands() if command.page == "paper.md"]


@dataclass(frozen=True)
class TinyScale:
    """Folders that replace the paper's models and data.

    Attributes:
        target: a small language model that knows the data.
        tofu: the files of TOFU for the split forget01.
        muse: the files of MUSE.
    """

    target: Path
    tofu: Path
    muse: Path

    def words(self, command: PageCommand) -> list[str]:
        """Return the words of a command with a tiny model, its data, and few steps."""
        if command.words[0] not in BEGIN:
            return list(command.words)
        words, model, dataset = self._without_model(command.words)
        if model == "resnet-50":
            return [*words, "--model", "tiny-resnet", "--dataset", "digits", "--limit", "60", "--target-epochs", "1"]
        if dataset == "muse-news":
            data = ["--dataset", "muse-news", "--data-dir", self.muse]
        else:
            data = ["--dataset", "tofu", "--data-dir", self.tofu, "--forget-split", "forget01"]
        return [*words, "--target-path", str(self.target), *map(str, data), "--max-length", "64"]

    def _without_model(self, words: Sequence[str]) -> tuple[list[str], str, str]:
        values = {"--model": "", "--dataset": "", "--dtype": ""}
        remaining, rest = [], iter(words)
        for word in rest:
            if word in values:
                values[word] = next(rest)
            else:
                remaining.append(word)
        return remaining, values["--model"], values["--dataset"]
