"""The description of every option of every command.

These descriptions define the command line, ``--help``, the keys of ``--config`` files, the Python keywords, the record
in sweep.json and the checks. ``--help`` imports this module, so it must import nothing slow. To add an option, add it
to :data:`DESCRIBED`; the fields of a trial are described in :mod:`trainables.spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from search_spaces.fields import Field, Role
from trainables.spec import FIELDS

PARETO, STUDY, RUN, TARGET = "pareto", "lr-study", "unlearn", "target"
EVALUATE, RESUME, PICK = "evaluate", "resume", "pick"
SWEEPS = (PARETO, STUDY)
RUNS = (*SWEEPS, RUN)
DEFAULT_OBJECTIVES = "forget_loss:max,retain_loss:min"
DEFAULT_TRACKING = "sqlite:///mlflow.db"
NO_SCHEDULER = "none"
ARMS = ("auto_lr_smoothing", "auto_lr_probe", "auto_lr_probe_batches")
"""AutoLR's settings for which each value is a separate arm of a learning-rate study."""
LIMITED = ("verbmem", "utility", "truth_ratio", "forget_loss", "retain_loss")
"""The columns for which ``pick`` has options, such as ``--max-verbmem``."""
_OWN = ("method", "lr", "auto_lr", "seed")
"""Trial fields that are declared separately for each command, because a sweep accepts several values."""
_ROLES: tuple[Role, ...] = ("training", "scoring", "method", "auto_lr")


def option(name: str, help: str, *commands: str, default: Any = None, kind: type = str, **more: Any) -> Field:
    """Return an option that is not a field of a trial."""
    described = {"flag": f"--{name.replace('_', '-')}", "optional": default is None, **more}
    return Field(name, default, help, kind=kind, scope="command", commands=commands, **described)


def _trial(name: str, *commands: str, **change: Any) -> Field:
    return replace(FIELDS[name], commands=commands, is_path=FIELDS[name].role == "placement", **change)


def _of_roles(*roles: Role) -> Iterator[Field]:
    """Yield the trial fields with these roles that are not in ``_OWN``, each with the commands that accept it."""
    for name, item in FIELDS.items():
        if item.role not in roles or not item.flag or name in _OWN:
            continue
        commands = [command for command in RUNS if not (command == STUDY and name in ARMS)]
        if item.role in ("data", "placement") and name != "retain_path":
            commands.append(TARGET)
        is_scored = item.role in ("data", "placement", "scoring") and name not in ("model_path", "metrics_every")
        if is_scored and not name.startswith("target_"):
            commands.append(EVALUATE)
        yield _trial(name, *commands)


_METHOD = "Method by name (see 'list methods'); repeats."
_C = "gdiff's weight on the retain loss; repeats."
_FOLDERS: dict[str, Any] = {"is_path": True, "repeats": True}

_whole, _number = partial(option, kind=int), partial(option, kind=float)
_flag = partial(option, kind=bool, default=False)

DESCRIBED: list[Field] = [
    _trial("method", *SWEEPS, repeats=True, help=_METHOD, otherwise="gdiff, ngdiff"),
    _trial("method", RUN, repeats=True),
    _trial("model_path", EVALUATE, help="Folder of the model to score, or of a PEFT adapter."),
    *_of_roles("data", "placement"),
    option(
        "plugin",
        "Python file with methods, metrics, data, models or templates (docs/extend.md); repeats.",
        *(*RUNS, TARGET, EVALUATE, "list"),
        metavar="FILE",
        **_FOLDERS,
    ),
    # What is searched ------------------------------------------------------------------------------------------------
    _number("c", _C, PARETO, RUN, repeats=True),
    _number("c", _C, STUDY, otherwise=".5, .9, .99", repeats=True),
    _trial("lr", PARETO, repeats=True, help="Learning rate; repeats.", otherwise="the model's range"),
    _trial("lr", STUDY, repeats=True, help="Learning rate; repeats.", otherwise="5 rates over the model's range"),
    _trial("lr", RUN, repeats=True),
    _trial(
        "auto_lr",
        PARETO,
        choices=("off", "on", "both"),
        help="Automatic learning rate: off, on, or both to search over the two.",
    ),
    _trial("auto_lr", RUN),
    option("space", "Search space: 'paper' for the paper's grid, or a FILE.yaml.", PARETO, is_path=True),
    _whole(
        "trials",
        "Number of trials.",
        PARETO,
        low=1,
        otherwise="32; 16 without a scheduler; the whole grid for a grid",
        changeable="New total number of trials; a finished sweep continues.",
    ),
    option("sampler", "Sampler: tpe, nsga2, nsga3, gp, qmc, random or grid.", PARETO, default="tpe"),
    _whole("seeds", "Runs per configuration.", PARETO, default=1, low=1),
    _whole("seeds", "Runs per configuration.", STUDY, default=2, low=1),
    _trial("seed", *SWEEPS, help="First seed of the trials and of the search."),
    _trial("seed", RUN),
    option("objectives", "Metrics to optimise: NAME:max|min,NAME:max|min.", *SWEEPS, default=DEFAULT_OBJECTIVES),
    option(
        "candidates",
        "Epochs of a trial that may be on the frontier: all, or last. Objectives that are not losses are known only "
        "after epochs at which --metrics-every measures them, and at the trial's end.",
        PARETO,
        default="all",
        choices=("all", "last"),
    ),
    option(
        "scheduler",
        "Scheduler: none, or moasha, which stops trials that fall behind.",
        *SWEEPS,
        otherwise="moasha; none with grid, several seeds, --candidates last, or objectives measured at a trial's end",
    ),
    _whole("grace", "Epochs before trials are first compared.", *SWEEPS, default=1, low=1),
    _whole("reduction", "One in this many trials continues, to this many times the epochs.", *SWEEPS, default=2, low=2),
    option(
        "stopping",
        "stop ends a trial that falls behind; pause keeps its state, and the trial continues if later ones are worse.",
        *SWEEPS,
        default="stop",
    ),
    _whole(
        "front_metrics",
        "Number of epochs on the frontier, nearest to the ideal corner, that get all metrics at the end.",
        *SWEEPS,
        default=8,
        low=0,
    ),
    option(
        "constraint",
        "Threshold that a result must meet: utility>=0.7, or utility>=70% of No-unlearn; repeats.",
        *SWEEPS,
        PICK,
        repeats=True,
        metavar="METRIC>=VALUE",
    ),
    option(
        "enqueue",
        "Point to try first: lr=1e-3,c=0.5, or a FILE of points; repeats.",
        PARETO,
        metavar="NAME=VALUE,...",
        **_FOLDERS,
    ),
    option("warm_start", "Learn from the sweep in this folder before the first trial; repeats.", PARETO, **_FOLDERS),
    option("reuse", "Reuse equal trials of the sweep in this folder; repeats.", *SWEEPS, **_FOLDERS),
    # A learning-rate study -------------------------------------------------------------------------------------------
    option(
        "seeds_vary",
        "What a seed changes: order (of examples), target (also), or data (also; authors).",
        STUDY,
        default="order",
    ),
    _number(
        "auto_lr_start_lr",
        "Learning rate AutoLR starts at; repeats.",
        STUDY,
        otherwise="every --lr",
        above=0.0,
        repeats=True,
    ),
    _trial(
        "auto_lr_smoothing",
        STUDY,
        repeats=True,
        help="AutoLR's rule: safe, search, trust, paper, clip or official; one arm each; repeats.",
    ),
    _trial(
        "auto_lr_probe",
        STUDY,
        repeats=True,
        help="Retain batch that AutoLR probes: same or fresh; one arm each; repeats.",
    ),
    _trial("auto_lr_probe_batches", STUDY, repeats=True, help="Retain batches that a fresh probe averages; repeats."),
    _flag(
        "extend",
        "If the best rate is at the edge of the grid, also run up to 4 rates beyond it.",
        STUDY,
        changeable="For an lr-study: also run rates beyond the edge of its grid.",
    ),
    option(
        "primary",
        "The one question that is not corrected for the others: AutoLR with this method.",
        STUDY,
        metavar="METHOD[/VARIANT]",
    ),
    option(
        "folders",
        "Judge finished sweeps in these folders without running trials; repeats.",
        STUDY,
        flag="--from",
        **_FOLDERS,
    ),
    # A trial ---------------------------------------------------------------------------------------------------------
    *_of_roles(*_ROLES),
    option("option", "Option of a method; repeats.", *RUNS, repeats=True, metavar="NAME=VALUE"),
    _whole(
        "landscape",
        "Evaluate both losses at this many points along each AutoLR step.",
        RUN,
        otherwise="none; needs --auto-lr on and --out",
        low=3,
        metavar="POINTS",
    ),
    # Where a sweep runs ----------------------------------------------------------------------------------------------
    _number(
        "gpus_per_trial",
        "GPUs per trial: 0.25 runs four trials on one GPU, auto as many as fit.",
        *SWEEPS,
        words={"auto": "auto"},
        otherwise="1 if this machine has a GPU, else 0",
    ),
    _number("cpus_per_trial", "CPU threads per trial.", *SWEEPS, default=1.0, above=0.0),
    _whole(
        "max_concurrent",
        "Maximum number of concurrent trials; with --address it may exceed what fits now, for nodes that join later.",
        *SWEEPS,
        low=1,
    ),
    option(
        "address",
        "Address of a running Ray cluster to join, or 'auto' to find it.",
        *SWEEPS,
        changeable="Ray cluster to continue on; none for this machine alone.",
    ),
    _flag(
        "no_ship",
        "With --address: do not send this project to the nodes (1.6 MB), because they have it.",
        *SWEEPS,
        changeable="Do not send this project to the nodes, because they have it.",
    ),
    option(
        "storage",
        "Folder for Ray's own state; or the s3://, gs:// or abfs:// address of a bucket that all files of workers use.",
        *SWEEPS,
        otherwise="OUT/ray",
        is_path=True,
    ),
    option("out", "Output folder.", *SWEEPS, otherwise="runs/NAME-TIME", is_path=True),
    option("out", "Folder for checkpoint/, history.csv and metrics.json.", RUN, is_path=True),
    option("out", "Copy the model's folder to this folder.", TARGET, is_path=True),
    option("out", "Folder for metrics.json and the per-item values, items.json.", EVALUATE, is_path=True),
    option("out", "If FOLDER is an address: the new local folder.", RESUME, otherwise="runs/NAME", is_path=True),
    # MLflow, and when a sweep ends -----------------------------------------------------------------------------------
    option(
        "tracking_uri",
        "MLflow server or database.",
        *SWEEPS,
        "ui",
        otherwise=f"$MLFLOW_TRACKING_URI, or {DEFAULT_TRACKING}",
    ),
    option("experiment", "MLflow experiment.", *SWEEPS, default="unlearning"),
    _number("time_budget", "Seconds after which no new trial starts.", *SWEEPS, above=0.0),
    _whole(
        "epoch_budget",
        "Total number of trained epochs after which no new trial starts.",
        PARETO,
        low=1,
        changeable="New total number of epochs to train.",
    ),
    option(
        "until",
        "Stop when N trials have increased the hypervolume by at most X.",
        PARETO,
        metavar="plateau[:N:X]",
        otherwise="plateau means 10 trials and 0.001",
        changeable="New stopping rule, as in pareto; none removes it.",
    ),
    option(
        "retry",
        "failed: run failed trials again. Trials ended by a disk, memory or a node always run again.",
        RESUME,
        metavar="failed",
        choices=("failed",),
    ),
    # Other commands --------------------------------------------------------------------------------------------------
    _flag("retain_only", "Train the retain model: the same recipe without the forget set.", TARGET),
    option("eval_log", "Evaluation log in the format of the TOFU authors.", EVALUATE, is_path=True),
    option("retain_eval_log", "Evaluation log of the model trained without the forget set.", EVALUATE, is_path=True),
    option(
        "rule", "knee, constraint or success.", PICK, otherwise="the report's answer; constraint if limits are given"
    ),
    option("where", "Limit on any numeric column: 'lr<=1e-4'; repeats.", PICK, repeats=True, metavar="COLUMN<=VALUE"),
    option("maximize", "Take the largest value of this column.", PICK, repeats=True, metavar="COLUMN"),
    option("minimize", "Take the smallest value of this column.", PICK, repeats=True, metavar="COLUMN"),
    *(
        _number(f"{side}_{name}", f"At {word} this {name}.", PICK)
        for name in LIMITED
        for side, word in (("max", "most"), ("min", "least"))
    ),
    option("copy_to", "Copy the checkpoint to this new folder.", PICK, is_path=True),
    option(
        "export",
        "Write a model with a model card to this new folder; it loads without this project.",
        PICK,
        is_path=True,
    ),
    _flag("merge", "With --export: merge a LoRA adapter into the full weights.", PICK),
    option("register", "Register the checkpoint as a version of this MLflow model.", PICK, metavar="NAME"),
    option("alias", "With --register: alias of this version.", PICK),
    option("tracking_uri", "With --register: address of MLflow.", PICK, otherwise="the sweep's"),
    _whole("port", "With --watch: port of the page.", "report", low=0, high=65535, otherwise="a free port"),
    _whole("port", "Port on this machine.", "ui", default=5000),
    _number("older_than", "With --prune: days without use.", "cache", default=30.0, low=0.0),
]
"""Every option of every command, in the order of ``--help``."""


def fields_of(command: str) -> dict[str, Field]:
    """Return the options of a command by name. For ``resume`` this includes the settings that it can change."""
    own = {item.name: item for item in DESCRIBED if command in item.commands}
    if command != RESUME:
        return own
    changed = [replace(item, help=item.changeable, otherwise="") for item in DESCRIBED if item.changeable]
    return {item.name: item for item in changed} | own


def named(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields keyed by both the field name and the option name, with ``_`` instead of ``-``."""
    flags = {item.flag.removeprefix("--").replace("-", "_"): item for item in fields.values()}
    return {**fields, **flags}
