"""An example or two of every command, at the end of its --help; the tests read each as the command would."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pareto": (
            "pareto --method gdiff --method npo+ngdiff --trials 32 --out runs/first",
            "pareto --config sweep.yaml --trials 64",
        ),
        "lr-study": ("lr-study --method ngdiff --lr 1e-4 --lr 3e-4 --lr 1e-3 --seeds 8",),
        "resume": ("resume runs/first --trials 64",),
        "status": ("status runs/first",),
        "stop": ("stop runs/first 00007", "stop runs/first"),
        "report": ("report runs/first --watch", "report runs/first runs/second --out runs/both"),
        "compare": ("compare runs/first --format tex",),
        "pick": ("pick runs/first --max-verbmem 0.1 --copy-to model",),
        "config": ("config runs/first --out sweep.yaml",),
        "unlearn": ("unlearn --method ngdiff --auto-lr on --epochs 10 --out model",),
        "target": ("target --model tiny-llama --out target",),
        "evaluate": (
            "evaluate --model-path model --dataset tofu --metrics tofu --retain-model retain",
            "evaluate --eval-log model.json --retain-eval-log retain.json",
        ),
        "list": ("list methods", "list metrics --plugin my_metric.py"),
        "doctor": ("doctor",),
        "cache": ("cache --prune --older-than 7",),
        "ui": ("ui --port 5001",),
    }
)


def epilog(name: str) -> str | None:
    """What click prints below a command's options."""
    lines = [f"  python -m sweeper {line}" for line in EXAMPLES.get(name, ())]
    return "\n".join(["\b", "Examples:" if len(lines) > 1 else "Example:", *lines]) if lines else None
