"""The command line. Command modules import slow packages only when a command runs, so that ``--help`` is fast."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

from search_spaces.common.messages import expected_one_of
from sweeper.cli import ask, folder, leaderboard, listing, machine, merge, models, results, sweeps
from sweeper.store.version import __version__

EXAMPLES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "pareto": (
            "pareto --method gdiff --method npo+ngdiff --trials 32 --out runs/first",
            "pareto --config sweep.yaml --trials 64",
        ),
        "lr-study": ("lr-study --method ngdiff --lr 1e-4 --lr 3e-4 --lr 1e-3 --seeds 8",),
        "leaderboard": (
            "leaderboard --method gdiff --method ngdiff --problem tiny-phi:authors --epoch-budget 60 --out runs/board",
            "leaderboard --from runs/board/cells.csv",
        ),
        "resume": ("resume runs/first --trials 64",),
        "confirm": ("confirm runs/first", "confirm runs/first --trial 00007 --epoch 3 --runs 5"),
        "attack": ("attack runs/first", "attack runs/first --attacks quantize,relearn --epsilon 0.05"),
        "audit": ("audit runs/first --models 20 --dry-run", "audit runs/first --models 20"),
        "status": ("status runs/first",),
        "stop": ("stop runs/first 00007", "stop runs/first"),
        "report": ("report runs/first --watch", "report runs/first runs/second --out runs/both"),
        "compare": ("compare runs/first --format tex",),
        "pick": ("pick runs/first --where 'verbmem<=0.1' --copy-to model",),
        "merge": ("merge runs/first --trial 00001 --trial 00003",),
        "ask": ('ask runs/first "Where was Ada Holt born?"', "ask runs/first --trial 00007 --epoch 3"),
        "config": ("config runs/first --out sweep.yaml",),
        "unlearn": ("unlearn --method ngdiff --auto-lr gen --epochs 10 --out model",),
        "target": ("target --model tiny-llama --out target",),
        "evaluate": (
            "evaluate --model-path model --dataset tofu --metrics tofu --retain-model retain",
            "evaluate --eval-log model.json --retain-eval-log retain.json",
        ),
        "list": ("list methods", "list attacks", "list metrics --plugin my_metric.py"),
        "doctor": ("doctor",),
        "cache": ("cache --prune --older-than 7",),
        "ui": ("ui --port 5001",),
    }
)
"""The examples at the end of each command's --help. The tests parse each example."""


def _epilog(name: str) -> str | None:
    lines = [f"  python -m sweeper {line}" for line in EXAMPLES.get(name, ())]
    if not lines:
        return None
    title = "Example:" if len(lines) == 1 else "Examples:"
    return "\n".join(["\b", title, *lines])


class Commands(click.Group):
    """The commands. An unknown name is answered with the most similar command and the list of all commands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            raise click.UsageError(f"unknown command '{name}': {expected_one_of(name, self.commands)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__)
def main() -> None:
    """Trace the forget/retain trade-off of machine-unlearning methods with Ray Tune, Optuna and MLflow.

    \b
    python -m sweeper pareto                                  a small sweep, no GPU, no network
    python -m sweeper pareto --space paper --model phi-1.5    the paper's set-up
    """


for module in (sweeps, leaderboard, merge, folder, results, ask, models, listing, machine):
    for command in vars(module).values():
        if isinstance(command, click.Command):
            command.epilog = _epilog(str(command.name))
            main.add_command(command)
