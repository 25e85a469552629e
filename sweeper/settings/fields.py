"""Describe every option of every command.

``--help`` imports this module, so this module must not import slow packages. Add new options to
:data:`COMMAND_OPTIONS`, and new fields of trials to :mod:`trainables.spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces.common.fields import Field, Role
from sweeper.settings.names import ARMS, DEFAULT_OBJECTIVES, DEFAULT_TRACKING, SAMPLERS, SCHEDULERS
from trainables.spec import FIELDS

PARETO, STUDY, RUN, TARGET = "pareto", "lr-study", "unlearn", "target"
EVALUATE, RESUME, PICK = "evaluate", "resume", "pick"
SWEEPS = (PARETO, STUDY)
RUNS = (*SWEEPS, RUN)
_DESCRIBED_PER_COMMAND = ("method", "lr", "auto_lr", "seed")
"""Trial fields whose options are described separately for each command."""
_ROLES: tuple[Role, ...] = ("training", "scoring", "method", "auto_lr")


def option(name: str, help: str, *commands: str, default: Any = None, kind: type = str, **attributes: Any) -> Field:
    """Return the description of an option that is not a field of a trial."""
    arguments = {"flag": f"--{name.replace('_', '-')}", "optional": default is None, **attributes}
    return Field(name, default, help, kind=kind, scope="command", commands=commands, **arguments)


def _trial_option(name: str, *commands: str, **changes: Any) -> Field:
    return replace(FIELDS[name], commands=commands, is_path=FIELDS[name].role == "placement", **changes)


def _trial_options(*roles: Role) -> Iterator[Field]:
    """Yield each trial field with one of these roles. Its attribute ``commands`` lists the commands that accept it."""
    for name, field in FIELDS.items():
        if field.role not in roles or not field.flag or name in _DESCRIBED_PER_COMMAND:
            continue
        commands = [PARETO, RUN] if name in ARMS else list(RUNS)  # lr-study accepts several values of ARMS
        if field.role in ("data", "placement") and name != "retain_path":
            commands.append(TARGET)
        is_scored = field.role in ("data", "placement", "scoring") and name not in ("model_path", "metrics_every")
        if is_scored and not name.startswith("target_"):
            commands.append(EVALUATE)
        yield _trial_option(name, *commands)


_METHOD_HELP = "Name of a method (see 'list methods'); can be repeated."
_C_HELP = "Weight of the retain loss in gdiff; can be repeated."
_REPEATED_PATH: dict[str, Any] = {"is_path": True, "repeats": True}

_integer = partial(option, kind=int)
_number = partial(option, kind=float)
_flag = partial(option, kind=bool, default=False)

COMMAND_OPTIONS: list[Field] = [
    _trial_option("method", *SWEEPS, repeats=True, help=_METHOD_HELP, otherwise="gdiff, ngdiff"),
    _trial_option("method", RUN, repeats=True),
    _trial_option("model_path", EVALUATE, help="Folder of the model or PEFT adapter to score."),
    *_trial_options("data", "placement"),
    option(
        "plugin",
        "Python file with methods, metrics, data, models or templates (docs/extend.md); can be repeated.",
        *(*RUNS, TARGET, EVALUATE, "list"),
        metavar="FILE",
        **_REPEATED_PATH,
    ),
    # What is searched ------------------------------------------------------------------------------------------------
    _number("c", _C_HELP, PARETO, RUN, repeats=True),
    _number("c", _C_HELP, STUDY, otherwise=".5, .9, .99", repeats=True),
    _trial_option("lr", PARETO, repeats=True, help="Learning rate; can be repeated.", otherwise="the model's range"),
    _trial_option(
        "lr",
        STUDY,
        repeats=True,
        help="Learning rate; can be repeated.",
        otherwise="5 rates in the model's range, which is extended by a factor of 3.2 at both ends",
    ),
    _trial_option("lr", RUN, repeats=True),
    _trial_option(
        "auto_lr",
        PARETO,
        choices=("off", "on", "both"),
        help="Automatic learning rate: off, on, or both; with both, the search chooses off or on for each trial.",
    ),
    _trial_option("auto_lr", RUN),
    option("space", "Search space: 'paper' for the paper's grid, or a FILE.yaml.", PARETO, is_path=True),
    _integer(
        "trials",
        "Number of trials.",
        PARETO,
        low=1,
        otherwise="32 trials; 16 trials without a scheduler; for a grid search, one trial for each point and seed",
        changeable="New total number of trials. A larger number continues a finished sweep.",
    ),
    option(
        "sampler", f"Sampler: {', '.join(SAMPLERS[:-1])} or {SAMPLERS[-1]}.", PARETO, default="tpe", choices=SAMPLERS
    ),
    _integer("seeds", "Number of runs of each configuration, with different seeds.", PARETO, default=1, low=1),
    _integer("seeds", "Number of runs of each configuration, with different seeds.", STUDY, default=2, low=1),
    _trial_option("seed", *SWEEPS, help="Seed of the search and of the first run of each configuration."),
    _trial_option("seed", RUN),
    option(
        "objectives",
        "Metrics to optimise, with directions: NAME:max|min,NAME:max|min.",
        *SWEEPS,
        default=DEFAULT_OBJECTIVES,
    ),
    option(
        "candidates",
        "Which epochs of each trial may be on the frontier: all epochs, or only the last. Objectives other than losses "
        "are measured only every --metrics-every epochs and at the end of a trial.",
        PARETO,
        default="all",
        choices=("all", "last"),
    ),
    option(
        "scheduler",
        "Scheduler: none, or moasha, which stops a trial early if other trials are better at the same epoch.",
        *SWEEPS,
        choices=SCHEDULERS,
        otherwise="moasha; none for a grid, several seeds, --candidates last, or objectives not measured every epoch",
    ),
    _integer("grace", "Number of epochs after which the scheduler first compares trials.", *SWEEPS, default=1, low=1),
    _integer(
        "reduction",
        "Reduction factor R: after each comparison, one in R trials continues, and is compared again after R times as "
        "many epochs.",
        *SWEEPS,
        default=2,
        low=2,
    ),
    option(
        "stopping",
        "What the scheduler does with a trial that is worse than others: stop ends the trial for good; pause keeps its "
        "state, and the trial continues later if enough new trials are worse.",
        *SWEEPS,
        default="stop",
        choices=("stop", "pause"),
    ),
    _integer(
        "front_metrics",
        "Maximum number of frontier epochs for which all metrics are measured at the end of the sweep. The epochs "
        "nearest to the best values of all objectives are measured first.",
        *SWEEPS,
        default=8,
        low=0,
    ),
    option(
        "constraint",
        "Threshold that a good model must meet: utility>=0.7, or utility>=70% (at least 70% of the target's utility); "
        "can be repeated.",
        *SWEEPS,
        PICK,
        repeats=True,
        metavar="METRIC>=VALUE",
    ),
    option(
        "enqueue",
        "Configuration to try first, such as lr=1e-3,c=0.5, or a FILE with a list of configurations; can be repeated.",
        PARETO,
        metavar="NAME=VALUE,...",
        **_REPEATED_PATH,
    ),
    option(
        "warm_start",
        "Let the sampler learn from the sweep in this folder before the first trial; can be repeated.",
        PARETO,
        **_REPEATED_PATH,
    ),
    option(
        "reuse",
        "Instead of running a trial again, reuse its result from the sweep in this folder; can be repeated.",
        *SWEEPS,
        **_REPEATED_PATH,
    ),
    # A learning-rate study -------------------------------------------------------------------------------------------
    option(
        "seeds_vary",
        "What differs between seeds: the order of the examples (order), also the target (target), or also the "
        "generated data (data; only for --dataset authors).",
        STUDY,
        default="order",
        choices=("order", "target", "data"),
    ),
    _number(
        "auto_lr_start_lr",
        "Learning rate with which AutoLR starts; can be repeated.",
        STUDY,
        otherwise="every --lr",
        above=0.0,
        repeats=True,
    ),
    _trial_option(
        "auto_lr_smoothing",
        STUDY,
        repeats=True,
        help="How AutoLR chooses the learning rate: safe, paper, clip or official; if repeated, the study compares "
        "these rules.",
    ),
    _trial_option(
        "auto_lr_probe",
        STUDY,
        repeats=True,
        help="The retain data on which AutoLR measures losses: same (the step's batch) or fresh (other batches); if "
        "repeated, the study compares both.",
    ),
    _trial_option(
        "auto_lr_probe_batches",
        STUDY,
        repeats=True,
        help="Number of fresh retain batches over which AutoLR averages each loss; can be repeated.",
    ),
    _flag(
        "extend",
        "If the best learning rate is at an edge of the grid, also run up to 4 rates beyond that edge.",
        STUDY,
        changeable="If the sweep is an lr-study: also run learning rates beyond the edge of its grid.",
    ),
    option(
        "primary",
        "Method of the primary comparison. All other comparisons are corrected for multiple testing.",
        STUDY,
        metavar="METHOD[/VARIANT]",
    ),
    option(
        "folders",
        "Evaluate the finished study in this folder without running trials; can be repeated.",
        STUDY,
        flag="--from",
        **_REPEATED_PATH,
    ),
    # A trial ---------------------------------------------------------------------------------------------------------
    *_trial_options(*_ROLES),
    option("option", "Option of a method; can be repeated.", *RUNS, repeats=True, metavar="NAME=VALUE"),
    _integer(
        "landscape",
        "Evaluate the forget loss and the retain loss at this many points along each AutoLR step. Requires "
        "'--auto-lr on' and --out.",
        RUN,
        otherwise="off",
        low=3,
        metavar="POINTS",
    ),
    # Where a sweep runs ----------------------------------------------------------------------------------------------
    _number(
        "gpus_per_trial",
        "GPUs per trial: 0.25 runs four trials on each GPU, and auto runs as many trials on each GPU as fit.",
        *SWEEPS,
        low=0.0,
        words={"auto": "auto"},
        otherwise="1; 0 with --address, or if this machine has no GPU",
    ),
    _number("cpus_per_trial", "CPU threads per trial.", *SWEEPS, default=1.0, above=0.0),
    _integer(
        "max_concurrent",
        "Maximum number of concurrent trials. With --address, it may exceed the number of trials that fit now, because "
        "nodes may join later.",
        *SWEEPS,
        low=1,
    ),
    option(
        "address",
        "Address of a running Ray cluster to join; 'auto' finds the address.",
        *SWEEPS,
        changeable="Ray cluster on which to continue, or 'none' to continue on this machine alone.",
    ),
    _flag(
        "no_ship",
        "With --address: do not send this project (1.6 MB) to the nodes. The nodes must already have it.",
        *SWEEPS,
        changeable="Do not send this project to the nodes. The nodes must already have it.",
    ),
    option(
        "storage",
        "Folder for Ray's state, or a bucket (s3://, gs:// or abfs://) through which workers exchange all files.",
        *SWEEPS,
        otherwise="OUT/ray",
        is_path=True,
    ),
    option("out", "Output folder.", *SWEEPS, otherwise="runs/NAME-TIME", is_path=True),
    option("out", "Write checkpoint/, history.csv and metrics.json to this folder.", RUN, is_path=True),
    option("out", "Copy the model to this folder.", TARGET, is_path=True),
    option(
        "out", "Write metrics.json and items.json (the metrics of each item) to this folder.", EVALUATE, is_path=True
    ),
    option(
        "out", "New local folder for the sweep if FOLDER is an address.", RESUME, otherwise="runs/NAME", is_path=True
    ),
    # MLflow, and when a sweep ends -----------------------------------------------------------------------------------
    option(
        "tracking_uri",
        "Address of the MLflow server or database.",
        *SWEEPS,
        "ui",
        otherwise=f"$MLFLOW_TRACKING_URI, or {DEFAULT_TRACKING}",
    ),
    option("experiment", "Name of the MLflow experiment.", *SWEEPS, default="unlearning"),
    _number("time_budget", "Seconds after which no new trial starts.", *SWEEPS, above=0.0),
    _integer(
        "epoch_budget",
        "Total number of trained epochs after which no new trial starts.",
        PARETO,
        low=1,
        changeable="New total number of trained epochs after which no new trial starts.",
    ),
    option(
        "until",
        "Stop the sweep when the last N trials have increased the hypervolume by at most X.",
        PARETO,
        metavar="plateau[:N:X]",
        otherwise="none; 'plateau' means plateau:10:0.001",
        changeable="New stopping rule, in the format of 'pareto --until'; 'none' removes the rule.",
    ),
    option(
        "retry",
        "'--retry failed' runs failed trials again. Trials that failed because of a disk, memory or a node always run "
        "again.",
        RESUME,
        metavar="failed",
        choices=("failed",),
    ),
    # Other commands --------------------------------------------------------------------------------------------------
    _flag(
        "retain_only", "Train the retain model, which is trained like the target but without the forget set.", TARGET
    ),
    option("eval_log", "Evaluation log in the format of the TOFU authors.", EVALUATE, is_path=True),
    option("retain_eval_log", "Evaluation log of the model trained without the forget set.", EVALUATE, is_path=True),
    option(
        "rule",
        "How to choose the model: knee (nearest to the best values of all objectives), constraint (best metric of the "
        "retain set within the limits), or success (like constraint, but only models that meet all thresholds).",
        PICK,
        choices=("knee", "constraint", "success"),
        otherwise="the same model as the report; constraint if limits are given",
    ),
    option(
        "where",
        "Limit on any numeric column, such as 'verbmem<=0.1' or 'lr<=1e-4'; can be repeated.",
        PICK,
        repeats=True,
        metavar="COLUMN<=VALUE",
    ),
    option("maximize", "Choose the model with the largest value in this column.", PICK, repeats=True, metavar="COLUMN"),
    option(
        "minimize", "Choose the model with the smallest value in this column.", PICK, repeats=True, metavar="COLUMN"
    ),
    option("copy_to", "Copy the checkpoint to this new folder.", PICK, is_path=True),
    option(
        "export",
        "Write the model and a model card to this new folder. The model can be loaded without this project.",
        PICK,
        is_path=True,
    ),
    _flag("merge", "With --export: merge a LoRA adapter into the weights of its base model.", PICK),
    option("register", "Register the checkpoint as a version of this MLflow model.", PICK, metavar="NAME"),
    option("alias", "With --register: alias of the registered version.", PICK),
    option("tracking_uri", "With --register: address of MLflow.", PICK, otherwise="the sweep's address"),
    _integer("port", "With --watch: port of the page.", "report", low=0, high=65535, otherwise="a free port"),
    _integer("port", "Port on this machine.", "ui", default=5000),
    _number(
        "older_than", "With --prune: days without use after which entries are removed.", "cache", default=30.0, low=0.0
    ),
]
"""Every option of every command, in the order of ``--help``."""


def fields_of(command: str) -> dict[str, Field]:
    """Return the options of a command, keyed by name."""
    fields = {item.name: item for item in COMMAND_OPTIONS if command in item.commands}
    if command != RESUME:
        return fields
    changeable = [replace(item, help=item.changeable, otherwise="") for item in COMMAND_OPTIONS if item.changeable]
    return {item.name: item for item in changeable} | fields


def by_name_and_flag(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields, keyed by name and by flag. The flag ``--lora-rank`` has the key ``lora_rank``."""
    by_flag = {item.flag.removeprefix("--").replace("-", "_"): item for item in fields.values()}
    return {**fields, **by_flag}
