"""Evaluate one model in a folder, or a published evaluation log: the command ``evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.checks.world import load_plugins, model_folder_problems, resolve_and_check
from sweeper.settings.fields import fields_of
from sweeper.settings.options import EvaluateOptions
from sweeper.settings.reading import read
from sweeper.settings.sources import PYTHON, Given, Problems, Raw, raise_if_any

if TYPE_CHECKING:
    from trainables.scoring.eval_log import EvalLog


def evaluate_raw(raw: Raw, problems: Sequence[str] = ()) -> dict[str, Any]:
    """Return the result of :func:`.evaluate`. ``problems`` are the error messages about the ``--config`` file."""
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
        elif folder.is_dir():  # otherwise, the missing folder is the problem
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
