"""The commands as Python: ``from sweeper import Sweep, unlearn, evaluate, pick``, with the options of the same names.

Wrong options raise :class:`~sweeper.cli.errors.Problems` with all that is wrong; a name that is none, TypeError.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.cli.python_options import options_of

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from analysis.tables.sources import Sources
    from sweeper.execution.finalize import Summary


@dataclass(frozen=True, slots=True)
class Sweep:
    """The sweep in a folder, begun here or by the command line, finished, running or interrupted."""

    out: Path

    def __init__(self, out: Path | str) -> None:
        object.__setattr__(self, "out", Path(out))

    @classmethod
    def begin(cls, *, out: Path | str | None = None, **options: Any) -> Sweep:
        """A new sweep, with the options of ``pareto``; nothing runs yet. Without ``out`` it is in a folder of runs/.

        Raises:
            Problems: everything that is wrong with the options, the space, the model and the data.
        """
        from sweeper.cli.pareto import output_folder, pareto

        with options_of(pareto, {"out": out, **options}) as (given, command):  # with plug-ins, which come before
            from sweeper.cli.from_options import sweep_settings
            from sweeper.store.folder import begin

            settings = sweep_settings(given, command=command)
        folder = output_folder(given["out"], name=settings.name)
        begin(settings, folder)
        return cls(folder)

    def run(self) -> Summary:
        """Run it, from wherever it stands, to its end and its report; after Ctrl-C, call it again.

        Raises:
            SweepError, PlacementError, DataError, TargetError: with a plain sentence.
            KeyboardInterrupt: it was interrupted; everything finished is kept.
        """
        self._take_up()

        from sweeper.cli.console import own_console
        from sweeper.execution.placement import PlacementError
        from sweeper.execution.shutdown import Interrupted
        from sweeper.store.folder import discard
        from sweeper.sweep import run

        try:
            return run(self.out, console=own_console())
        except Interrupted:
            raise KeyboardInterrupt from None
        except PlacementError:
            discard(self.out)
            raise

    @property
    def trials(self) -> pd.DataFrame:
        """trials.csv: a row per trial that has ended."""
        return self._read().table.trials

    @property
    def history(self) -> pd.DataFrame:
        """history.csv: a row per report, also of running trials."""
        return self._read().table.history

    @property
    def candidates(self) -> pd.DataFrame:
        """candidates.csv: a row per evaluated epoch."""
        return self._read().table.candidates

    @property
    def front(self) -> pd.DataFrame:
        """The frontier as of the last report: a row per epoch on it, with its objectives, settings and checkpoint."""
        import pandas as pd

        return pd.json_normalize(self._pareto()["front"])

    @property
    def answer(self) -> dict[str, Any]:
        """What the report answers: ``headline``, ``outcome``, ``recommended``, ``trial_id``, ``checkpoint``, ..."""
        return dict(self._pareto()["answer"] or {})

    def figures(self) -> dict[str, Figure]:
        """The figures of the report by name, the frontier (``pareto``) first, drawn from what is there now."""
        from analysis.figures.draw_pareto import draw_pareto
        from analysis.figures.gallery import gallery
        from analysis.figures.pareto import pareto_data

        read = self._read()
        found = {"pareto": draw_pareto(pareto_data(read.table, read.sweep))}
        return found | {item.data.name: item.draw(item.data) for item in gallery(read)}

    def pick(self, **options: Any) -> dict[str, Any]:
        """:func:`pick` of this sweep."""
        return pick(self.out, **options)

    def _take_up(self) -> None:
        from sweeper.cli.console import own_console
        from sweeper.store.plugins import restore_plugins

        for line in restore_plugins(self.out):
            own_console().print(line, highlight=False, markup=False, soft_wrap=True)

    def _read(self) -> Sources:
        from analysis.tables.sources import read_source

        return read_source(self.out)

    def _pareto(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.out / "pareto.json").read_text(encoding="utf-8"))
        return content


def unlearn(*, out: Path | str | None = None, **options: Any) -> dict[str, object]:
    """One run without Ray, with the options of ``unlearn``; returns the row that a table of trials would have.

    With ``out`` the model is in ``out/checkpoint``, and the same call goes on with a run that was interrupted.

    Raises:
        Problems: everything that is wrong with the options.
    """
    from sweeper.cli.unlearn import unlearn as command

    with options_of(command, {"out": out, **options}) as (given, line):  # with plug-ins, which come before
        import click

        from sweeper.checks.specs import GOES_ON
        from sweeper.cli.console import own_console
        from sweeper.cli.from_options import single_spec
        from sweeper.single_run import run_once

        click.get_current_context().meta[GOES_ON] = True
        spec, points = single_spec(given), given["landscape"] or 0
    folder = Path(out) if out is not None else None
    return run_once(spec, out=folder, console=own_console(), started=time.time(), landscape_points=points, command=line)


def evaluate(**options: Any) -> dict[str, Any]:
    """The metrics of a model folder (``model_path``) or of an evaluation log (``eval_log``), as ``evaluate`` has them.

    Raises:
        Problems: everything that is wrong with the options.
    """
    from sweeper.cli.evaluate import evaluate as command
    from sweeper.cli.evaluate import scores

    with options_of(command, options) as (given, _):
        return scores(given)


def pick(
    out: Path | str,
    *,
    rule: str | None = None,
    where: Sequence[str] | str = (),
    maximize: str | None = None,
    minimize: str | None = None,
    constraint: Sequence[str] | str = (),
    copy_to: Path | str | None = None,
    export: Path | str | None = None,
    merge: bool = False,
    register: str | None = None,
    alias: str | None = None,
    tracking_uri: str | None = None,
    **limits: float,
) -> dict[str, Any]:
    """Which checkpoint of a sweep to take, whether it is good, and why: what ``pick --json`` prints.

    Raises:
        Problems: everything that is wrong with the options.
        AnalysisError: nothing is within the limits; the message says what comes nearest.
    """
    Sweep(out)._take_up()

    from sweeper.cli.pick import chosen
    from sweeper.cli.pick import pick as command

    wanted = {"where": where, "maximize": maximize, "minimize": minimize, "constraint": constraint}
    handed_over = {"copy_to": copy_to, "export": export, "merge": merge}
    handed_over |= {"register": register, "alias": alias, "tracking_uri": tracking_uri}
    with options_of(command, {"folder": out, "rule": rule, **wanted, **handed_over, **limits}) as (given, line):
        return chosen(given.pop("folder"), given, command=line).content
