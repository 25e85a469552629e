"""The commands of the command line as Python functions with the same options.

Invalid values of options raise :class:`~sweeper.settings.sources.Problems`, which lists all problems. An unknown
option raises TypeError.
"""

from __future__ import annotations

import datetime
import itertools
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.common.messages import no_sweep
from sweeper.checks.world import resolve_and_check
from sweeper.settings.fields import fields_of
from sweeper.settings.options import AskOptions, EvaluateOptions, ParetoOptions, PickOptions, RunOptions
from sweeper.settings.reading import read
from sweeper.settings.sources import (
    PYTHON,
    Given,
    Options,
    Problems,
    Raw,
    command_line,
    from_python,
    raise_if_any,
    with_config,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from analysis.tables.sources import Sources
    from sweeper.driver.finalize import Summary
    from sweeper.execution.cluster import Cluster
    from trainables.scoring.eval_log import EvalLog


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


def evaluate_raw(raw: Raw, problems: Sequence[str] = ()) -> dict[str, Any]:
    """Return the result of :func:`evaluate`. ``problems`` are the error messages about the ``--config`` file."""
    from sweeper.checks.world import load_plugins

    load_plugins(raw, problems)  # before the registries are read, which read() does
    options, _ = read(EvaluateOptions, raw)  # _scores_of_model reports the problems, with those of the files
    log = options.eval_log
    folder = options.model_path
    if folder is not None and log is None:
        return _scores_of_model(Path(folder), options, raw, problems)
    if log is None or folder is not None:
        raise Problems(["evaluate needs either --model-path DIR (a model to score) or --eval-log FILE (a log to read)"])
    model_fields = [
        field
        for field in fields_of(EvaluateOptions).values()
        if field.scope == "trial" or field.name in ("questions", "lm_eval_tasks")
    ]
    if unused_flags := [field.flag for field in model_fields if field.name in raw]:
        flags = ", ".join(unused_flags)
        reason = "with --eval-log, the log determines the items and metrics"
        raise Problems([f"{flags} can be used only with --model-path; {reason}"])
    return _scores_of_log(log, options.retain_eval_log, options.out)


def _scores_of_model(folder: Path, options: EvaluateOptions, raw: Raw, problems: Sequence[str]) -> dict[str, Any]:
    from sweeper.checks.world import model_folder_problems
    from sweeper.export.target_of_model import recorded_recipe, target_of_model
    from trainables.modality import dataset_modality
    from trainables.models.adapters import adapter_problems
    from trainables.models.checkpoints import ADAPTER_CONFIG
    from trainables.models.registry import MODELS
    from trainables.target.prepare import Preparation, score_checkpoint

    errors = list(problems)
    if options.retain_eval_log is not None:
        errors.append("--retain-eval-log can be used only with --eval-log; with --model-path, use --retain-model DIR")
    named_model = MODELS.get(options.model or "")
    modality = dataset_modality(options.dataset or (named_model.dataset if named_model else None))
    if (folder / ADAPTER_CONFIG).is_file():
        errors += adapter_problems(folder)
    else:
        errors += model_folder_problems(folder, flag="--model-path", modality=modality)
    target = Path(options.target_path).resolve() if options.target_path else target_of_model(folder)
    changes: dict[str, Any] = {"target_path": str(folder.resolve())}
    if options.model is None and "relearn_lr" not in raw and _trains(options.attacks):
        recipe = recorded_recipe(folder, target)
        if recipe is not None:  # with LoRA, the rate is not that of all weights
            changes |= {"target_lr": recipe["lr"], "target_lora_rank": recipe["lora_rank"] or 0}
        else:
            remedy = "give it (--relearn-lr), or name the registered model (--model)"
            errors.append(
                f"--attacks {options.attacks}: relearn and benign train the model, but the learning rate of its "
                f"fine-tuning is unknown; {remedy}"
            )
    # Set a model name: without a model name and a data set, the checks would assume a model to fine-tune on TOFU.
    raw_with_model = {"model": [Given(modality.offline_model, PYTHON)], **raw}
    del raw_with_model["model_path"]
    resolved = resolve_and_check(EvaluateOptions, raw_with_model, errors, **changes)
    from search_spaces.common.durable import write_json
    from sweeper.console import own_console
    from sweeper.execution.target_task import print_data_notes, print_left_out_metrics, progress_shown
    from sweeper.execution.threads import use_free_threads
    from trainables.scoring.item_log import write_item_log
    from trainables.target.target import target_spec_of

    console = own_console()
    use_free_threads()
    target_spec = target_spec_of(resolved.base)
    print_left_out_metrics(target_spec.left_out, console)
    print_data_notes(target_spec, console)
    with progress_shown(resolved.base, console, first="scoring the model") as (show, _):
        scores = score_checkpoint(resolved.base, target=target, on_progress=show)
    content: dict[str, Any] = dict(scores.metrics)
    if target is not None:
        console.print(f"the target is {target}", soft_wrap=True)
        with progress_shown(resolved.base, console, first="scoring the target") as (show, _):
            spec = replace(resolved.base, target_path=str(target))
            content["target"] = dict(score_checkpoint(spec, target=target, on_progress=show).metrics)
    if target_spec.retain_path is not None and (retain := Preparation(spec=target_spec).retain_values()) is not None:
        content["never_saw"] = dict(retain.metrics)
    if options.out:
        out = Path(options.out)
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "metrics.json", {**content, "generation_seconds": scores.generation_seconds})
        write_item_log(out / "items.json", scores.items)
        _write_exchange(out, content)
    return content


def _trains(attacks: str) -> bool:
    """Return whether one of these attacks trains the model. Unknown names are reported later."""
    from trainables.attacks.registry import ATTACKS, AttackError, parse_attacks

    try:
        return any(ATTACKS[name].trains for name in parse_attacks(attacks))
    except AttackError:
        return False


def _write_exchange(out: Path, metrics: Mapping[str, Any]) -> None:
    """Write the formats of open-unlearning, if items.json has all evaluation sets of TOFU with all their columns."""
    from trainables.scoring.eval_log import EvalLogError, evaluate_log, read_eval_log

    try:
        log = read_eval_log(out / "items.json")
    except EvalLogError:
        return
    _write_open_unlearning(out, log, {**evaluate_log(log), **metrics})


def _write_open_unlearning(out: Path, log: EvalLog, metrics: Mapping[str, Any]) -> None:
    from analysis.tables.published import leaderboard_row
    from search_spaces.common.durable import write_atomically, write_json
    from trainables.scoring.open_unlearning import tofu_eval, tofu_summary

    content = tofu_eval(log, metrics)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "TOFU_EVAL.json", content)
    write_json(out / "TOFU_SUMMARY.json", tofu_summary(content))
    quality, utility = metrics.get("forget_quality"), metrics["model_utility"]
    row = leaderboard_row(out.resolve().name, forget_quality=quality, model_utility=utility)
    write_atomically(out / "leaderboard_row.md", row)


def _scores_of_log(eval_log: str, retain_eval_log: str | None, out: str | None) -> dict[str, Any]:
    from trainables.scoring.eval_log import EvalLogError, evaluate_log, read_eval_log

    paths = [eval_log] if retain_eval_log is None else [eval_log, retain_eval_log]
    logs = []
    problems = []
    for path in paths:
        try:
            logs.append(read_eval_log(Path(path)))
        except EvalLogError as error:
            problems.append(str(error))
    raise_if_any(problems)
    try:
        metrics = dict(evaluate_log(*logs))
    except EvalLogError as error:
        raise Problems([str(error)]) from None
    if out is not None:
        _write_open_unlearning(Path(out), logs[0], metrics)
    return metrics
