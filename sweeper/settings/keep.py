"""The number or size of checkpoints that ``--keep-checkpoints`` allows."""

from __future__ import annotations

import re
from dataclasses import dataclass

from search_spaces.common.messages import format_size

_UNITS = {"MB": 1e6, "GB": 1e9, "TB": 1e12}
_SIZE = re.compile(rf"(\d+(?:\.\d+)?) ?({'|'.join(_UNITS)})", re.IGNORECASE)


class KeepError(ValueError):
    """``--keep-checkpoints`` cannot be parsed, or allows too few checkpoints."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Keep:
    """A number of checkpoints, or their total size in bytes. The other field is None."""

    models: int | None = None
    bytes: float | None = None

    def count(self, checkpoint_bytes: int) -> int:
        """Return the number of checkpoints for checkpoints of this size.

        Raises:
            KeepError: fewer than :func:`min_models` checkpoints have the allowed size.
        """
        if self.bytes is None:
            assert self.models is not None
            return self.models
        models = int(self.bytes // max(1, checkpoint_bytes))
        if models < min_models():
            raise KeepError(
                f"--keep-checkpoints {format_size(self.bytes)}: expected at least "
                f"{format_size(min_models() * checkpoint_bytes)}, because the recommended model and its runners-up "
                f"have {format_size(checkpoint_bytes)} each"
            )
        return models


def min_models() -> int:
    """Return the number of checkpoints that are always kept: those of the answer and its runners-up."""
    from analysis.frontier.choice import RUNNERS_UP  # imports pandas, which is slow

    return 1 + RUNNERS_UP


def parse_keep(text: str | None) -> Keep | None:
    """Parse a number such as ``20``, or a size such as ``40GB``. Return None for None.

    Raises:
        KeepError: the text has another format, or the number is less than :func:`min_models`.
    """
    if text is None:
        return None
    if text.isdecimal() and int(text) >= min_models():
        return Keep(models=int(text))
    if (match := _SIZE.fullmatch(text)) and float(match[1]) > 0:
        return Keep(bytes=float(match[1]) * _UNITS[match[2].upper()])
    raise KeepError(
        f"--keep-checkpoints '{text}': expected a number of at least {min_models()} (the recommended model and "
        "its runners-up are always kept), or a size such as 40GB"
    )
