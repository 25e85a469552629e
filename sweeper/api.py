"""The commands of the command line as Python functions with the same options.

Invalid values of options raise :class:`~sweeper.settings.sources.Problems`, which lists all problems. An unknown
option raises TypeError.
"""

from __future__ import annotations

import datetime
import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.common.messages import no_sweep
from sweeper.checks.world import resolve_and_check
from sweeper.settings.options import AskOptions, EvaluateOptions, ParetoOptions, PickOptions, RunOptions
from sweeper.settings.sources import (
    Options,
    Problems,
    Raw,
    command_line,
    from_python,
    with_config,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from analysis.tables.sources import Sources
    from sweeper.driver.finalize import Summary
    from sweeper.execution.cluster import Cluster


class Sweep:
    """A sweep in a folder. The sweep may be running, interrupted or finished.

    If the folder holds no sweep, or a result is missing, methods raise :class:`~sweeper.settings.sources.Problems`.
    """

    def __init__(self, out: Path | str) -> None:
        self.out = Path(out)

    @classmethod
    def begin(cls, *, out: Path | str | None = None, **options: Any) -> Sweep:
        """Create a sweep with the options of the command ``pareto``, but do not run it.

        If ``out`` is None, the sweep gets a new folder in runs/.

        Raises:
            Problems: the options, the space, the model or the data are invalid. The exception lists all problems.
        """
        raw, problems = _raw(ParetoOptions, {"out": out, **options})
        settings = resolve_and_check(ParetoOptions, raw, problems).settings
        assert settings is not None
        from sweeper.store.folder import begin  # imports the registries, so the plug-ins must be loaded before

        folder = output_folder(None if out is None else str(out), name=settings.name)
        begin(settings, folder)
        return cls(folder)

    def run(self, *, cluster: Cluster | None = None) -> Summary:
        """Run the sweep to its end, and write its report. If the sweep was interrupted, it is resumed.

        ``cluster`` is a Ray cluster that several sweeps share. If None, the sweep has its own.

        Raises:
            SweepError, PlacementError, DataError, TargetError: the sweep cannot run; the message names the reason.
            KeyboardInterrupt: a user interrupted the sweep. All finished trials are kept.
        """
        self._check()
        from sweeper.console import own_console
        from sweeper.store.plugins import restore_plugins

        for line in restore_plugins(self.out):  # before anything reads a registry
            own_console().print(line, soft_wrap=True)
        from sweeper.execution.placement import PlacementError
        from sweeper.execution.shutdown import Interrupted
        from sweeper.store.folder import discard
        from sweeper.sweep import run

        try:
            return run(self.out, console=own_console(), cluster=cluster)
        except Interrupted:
            raise KeyboardInterrupt from None
        except PlacementError:
            discard(self.out)
            raise

    @property
    def trials(self) -> pd.DataFrame:
        """The table trials.csv, with one row for each ended trial."""
        return self._read().table.trials

    @property
    def history(self) -> pd.DataFrame:
        """The table history.csv, with one row for each report of an ended or running trial."""
        return self._read().table.history

    @property
    def candidates(self) -> pd.DataFrame:
        """The table candidates.csv, with one row for each evaluated epoch."""
        return self._read().table.candidates

    @property
    def front(self) -> pd.DataFrame:
        """The frontier in the last report, with one row for each epoch on the frontier."""
        import pandas as pd

        return pd.json_normalize(self._pareto()["front"])

    @property
    def answer(self) -> dict[str, Any]:
        """The conclusion of the last report: a mapping with keys such as ``headline``, ``recommended`` and
        ``trial_id``.
        """
        return dict(self._pareto()["answer"] or {})

    def figures(self) -> dict[str, Figure]:
        """Draw the figures of the report. Return a mapping from name to figure."""
        from analysis.figures.gallery import gallery
        from analysis.figures.panels import draw_panels
        from analysis.figures.pareto import pareto_figure
        from analysis.report.report import draw_frontier
        from analysis.tables.tasks import by_task

        sources = self._read()
        figures = {"pareto": draw_frontier(pareto_figure(sources.table, sources.sweep))}
        sources_by_task, _ = by_task(sources)
        for _, data in gallery(sources_by_task):
            figures[data.name] = draw_panels(data)
        return figures

    def pick(self, **options: Any) -> dict[str, Any]:
        """Call :func:`pick` for this sweep."""
        return pick(self.out, **options)

    def _check(self) -> None:
        if not (self.out / "sweep.json").is_file():
            raise Problems([no_sweep(self.out)])

    def _read(self) -> Sources:
        self._check()
        from analysis.tables.sources import read_source

        return read_source(self.out)

    def _pareto(self) -> dict[str, Any]:
        path = self.out / "pareto.json"
        if not path.is_file():
            self._check()
            raise Problems([f"the sweep in {self.out} has no report yet: call run(), which writes {path.name}"])
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return content


def output_folder(out: str | None, *, name: str) -> Path:
    """Return the folder ``out``. If ``out`` is None, create a folder in runs/."""
    if out is not None:
        return Path(out)
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in itertools.count(1):
        suffix = "" if number == 1 else f"-{number}"
        folder = Path("runs") / f"{name}-{stamp}{suffix}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue  # another sweep started in this second
        return folder
    raise AssertionError("unreachable")


def unlearn(*, out: Path | str | None = None, **options: Any) -> dict[str, object]:
    """Run one trial with the options of the command ``unlearn``. Return the trial's row of trials.csv, keyed by column.

    If ``out`` and ``tracking_uri`` are given, the run is recorded in MLflow, too.

    If ``out`` is given, the model is saved in ``out/checkpoint``. If ``out`` contains an interrupted run of the same
    trial, the run continues.

    Raises:
        Problems: some options are invalid; the exception lists all problems.
    """
    raw, problems = _raw(RunOptions, {"out": out, **options})
    resolved = resolve_and_check(RunOptions, raw, problems, continues=True)
    from sweeper.console import own_console
    from sweeper.followers.mlflow.single_run import record_run
    from sweeper.single_run import run_once

    console, tracking_uri = own_console(), resolved.options.tracking_uri
    row = run_once(
        resolved.base,
        out=Path(out) if out is not None else None,
        console=console,
        started=time.time(),
        landscape_points=resolved.options.landscape or 0,
        command=command_line(RunOptions, raw),
    )
    if out is not None and tracking_uri is not None:
        console.print(record_run(row, Path(out), uri=tracking_uri), soft_wrap=True)
    return row


def evaluate(**options: Any) -> dict[str, Any]:
    """Return the metrics of the model in a folder (``model_path``) or of a published evaluation log (``eval_log``).

    If the model's target is known, the key ``target`` has the target's metrics. With ``retain_path``, the key
    ``never_saw`` has the metrics of the retain model, which never saw the forget set.

    Raises:
        Problems: some options are invalid; the exception lists all problems.
    """
    from sweeper.evaluating import evaluate_raw

    raw, problems = _raw(EvaluateOptions, options)
    return evaluate_raw(raw, problems)


def pick(out: Path | str, **options: Any) -> dict[str, Any]:
    """Choose a checkpoint of a sweep with the options of the command ``pick``. Return the output of ``pick --json``.

    Raises:
        Problems: some options are invalid; the exception lists all problems.
        AnalysisError: no model meets all limits (such as ``where="verbmem<=0.1"``), or an option names a column that
            does not exist.
    """
    raw, problems = _raw(PickOptions, options)
    from sweeper.store.plugins import restore_plugins

    restore_plugins(Path(out))  # before any registry is read
    from sweeper.export.pick import choose

    return choose(Path(out), raw, problems).content


def ask(out: Path | str, *questions: str, **options: Any) -> dict[str, Any]:
    """Ask the target and the models of a sweep or a run. The options and the result are those of ``ask --json``.

    Raises:
        Problems: a model does not exist; the message lists those that exist. Image classifiers cannot be asked.
    """
    raw, _ = _raw(AskOptions, options)
    from sweeper.store.plugins import restore_plugins

    restore_plugins(Path(out))  # before any registry is read
    from sweeper.asking import open_panel
    from sweeper.console import own_console

    panel = open_panel(Path(out), raw, questions, console=own_console())
    return panel.to_dict(panel.ask(questions) if questions else [])


def _raw(command: type[Options], options: Mapping[str, object]) -> tuple[Raw, list[str]]:
    """Return the option values, including the values in the config file, and the error messages about the file."""
    values = dict(options)
    has_config_option = command in (ParetoOptions, RunOptions)
    config = values.pop("config", None) if has_config_option else None
    config_path = None if config is None else str(config)
    return with_config(command, from_python(command, values), config_path)
