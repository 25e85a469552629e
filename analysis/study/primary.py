"""The primary question of a study: named before there are results, it is not corrected for the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Primary:
    """Whether AutoLR beats the best single lr with one method; ``variant`` is AutoLR's, "" where there is only one."""

    method: str
    variant: str = ""

    @classmethod
    def parse(cls, text: str) -> Primary:
        """``ngdiff``, or with one of several variants of AutoLR ``ngdiff/safe/freshx4``."""
        method, _, variant = text.strip().partition("/")
        return cls(method, variant)

    def __str__(self) -> str:
        return f"{self.method}/{self.variant}" if self.variant else self.method

    def asks(self, method: str, variant: str) -> bool:
        """Whether this is the question of a method and a variant of AutoLR, "" where AutoLR was not run."""
        return method == self.method and (not variant or self.variant in ("", variant))


def shared_primary(named: Sequence[str]) -> tuple[Primary | None, tuple[str, ...]]:
    """The primary question of several studies judged together ("" where one named none), and notes in sentences.

    It holds only where all of them named the same before they had results.
    """
    if len(set(named)) == 1 and named[0]:
        return Primary.parse(named[0]), ()
    if not any(named):
        return None, ()
    told = " and ".join(dict.fromkeys(name or "none" for name in named))
    return None, (f"the studies named different primary questions ({told}): all comparisons are corrected together",)
