"""A space in which many parameters have conditions."""

from __future__ import annotations

from pathlib import Path

from search_spaces.parameters import Choice, Number
from search_spaces.space import Space

CONDITIONAL = Space(
    (
        Choice("method", ("gdiff", "npo", "simnpo", "ngdiff")),
        Choice("auto_lr", ("off", "on")),
        Number("lr", 1e-5, 1e-3, log=True),
        Number("c", 0.1, 0.995, when={"method": ("gdiff",)}, key="gdiff.c", log_to_one=True),
        Number("beta", 0.01, 1.0, log=True, when={"method": ("npo",)}, key="npo.beta"),
        Number("beta", 0.5, 5.5, when={"method": ("simnpo",)}, key="simnpo.beta"),
        Number(
            "auto_lr_every", 1, 20, log=True, when={"auto_lr": ("on",), "method": ("gdiff", "ngdiff")}, integer=True
        ),
        Choice("lora_rank", (None, 8), when={"auto_lr": ("off",)}),
    ),
    {"epochs": 15},
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
