"""Every option of every command, described once.

The command line, ``--help``, the keys of a ``--config`` file, Python keywords, the record in sweep.json and the checks
read these descriptions. ``--help`` imports this module, so it imports nothing slow. To add an option, add it to
:data:`DESCRIBED`; the fields of a trial are described in :mod:`trainables.spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from search_spaces.fields import Field, Role, Scope
from trainables.spec import FIELDS

PARETO, STUDY, RUN, TARGET, EVALUATE, RESUME, PICK = (
    *("pareto", "lr-study", "unlearn", "target", "evaluate", "resume", "pick"),
)
SWEEPS = (PARETO, STUDY)
RUNS = (*SWEEPS, RUN)
DEFAULT_OBJECTIVES = "forget_loss:max,retain_loss:min"
DEFAULT_TRACKING = "sqlite:///mlflow.db"
NO_SCHEDULER = "none"
ARMS = ("auto_lr_smoothing", "auto_lr_probe", "auto_lr_probe_batches")
"""AutoLR's settings of which each value is a separate arm of a learning-rate study."""
LIMITED = ("verbmem", "utility", "truth_ratio", "forget_loss", "retain_loss")
"""The columns with ``pick`` options of their own, such as ``--max-verbmem``."""
_OWN = ("method", "lr", "auto_lr", "seed")
"""Fields of a trial that commands declare one by one, because a sweep takes several values."""
_ROLES: tuple[Role, ...] = ("training", "scoring", "method", "auto_lr")


def option(
    name: str, default: Any, help: str, *commands: str, scope: Scope = "search", kind: type = str, **more: Any
) -> Field:
    """Return an option that is not a field of a trial."""
    described = {"flag": f"--{name.replace('_', '-')}", "optional": default is None, **more}
    return Field(name, default, help, kind=kind, scope=scope, commands=commands, **described)


def _trial(name: str, *commands: str, **change: Any) -> Field:
    """Return a field of a trial as an option of these commands."""
    return replace(FIELDS[name], commands=commands, is_path=FIELDS[name].role == "placement", **change)


def _of_roles(*roles: Role) -> Iterator[Field]:
    """Yield the fields of a trial that commands do not declare one by one, each with the commands it concerns."""
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
_NUMBERS: dict[str, Any] = {"kind": float, "repeats": True}
_STUDY: dict[str, Any] = {"scope": "study"}
_PLACE: dict[str, Any] = {"scope": "placement"}
_MLFLOW: dict[str, Any] = {"scope": "tracking"}
_COMMAND: dict[str, Any] = {"scope": "command"}
_NEW_FOLDER: dict[str, Any] = {**_COMMAND, "is_path": True}
_FOLDERS: dict[str, Any] = {"is_path": True, "repeats": True}

DESCRIBED: list[Field] = [
    _trial("method", *SWEEPS, repeats=True, help=_METHOD, otherwise="gdiff, ngdiff"),
    _trial("method", RUN, repeats=True),
    _trial("model_path", EVALUATE, help="Folder of the model to score, or of a PEFT adapter."),
    *_of_roles("data", "placement"),
    option(
        *("plugin", None, "Python file with methods, metrics, data, models or templates (docs/extend.md); repeats."),
        *(*RUNS, TARGET, EVALUATE, "list"),
        **{**_COMMAND, **_FOLDERS, "metavar": "FILE"},
    ),
    # What is searched ------------------------------------------------------------------------------------------------
    option("c", None, _C, PARETO, RUN, **_NUMBERS),
    option("c", None, _C, STUDY, otherwise=".5, .9, .99", **_NUMBERS),
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
    option("space", None, "Search space: 'paper' for the paper's grid, or a FILE.yaml.", PARETO, is_path=True),
    option(
        *("trials", None, "Number of trials.", PARETO),
        kind=int,
        low=1,
        otherwise="32; 16 without a scheduler; the whole grid for a grid",
        changeable="New total number of trials; a finished sweep continues.",
    ),
    option("sampler", "tpe", "Sampler: tpe, nsga2, nsga3, gp, qmc, random or grid.", PARETO),
    option("seeds", 1, "Runs per configuration.", PARETO, kind=int, low=1),
    option("seeds", 2, "Runs per configuration.", STUDY, kind=int, low=1),
    _trial("seed", *SWEEPS, help="First seed of the trials and of the search."),
    _trial("seed", RUN),
    option(
        *("objectives", None, "Metrics to optimise: NAME:max|min,NAME:max|min.", *SWEEPS), otherwise=DEFAULT_OBJECTIVES
    ),
    option(
        "candidates",
        "all",
        "Epochs of a trial that may be on the frontier: all, or last. Objectives other than losses are known only "
        "after epochs at which --metrics-every measures them, and at the trial's end.",
        PARETO,
        choices=("all", "last"),
    ),
    option(
        *("scheduler", None, "Scheduler: none, or moasha, which stops trials that fall behind.", *SWEEPS),
        otherwise="moasha; none with grid, several seeds, --candidates last, or objectives measured at a trial's end",
    ),
    option("grace", None, "Epochs before trials are first compared.", *SWEEPS, kind=int, low=1, otherwise="1"),
    option(
        *("reduction", None, "One in this many trials continues, to this many times the epochs.", *SWEEPS),
        kind=int,
        low=2,
        otherwise="2",
    ),
    option(
        "stopping",
        None,
        "stop ends a trial that falls behind; pause keeps its state, and the trial continues if later ones are worse.",
        *SWEEPS,
        otherwise="stop",
    ),
    option(
        "front_metrics",
        8,
        "At the end of the sweep, measure all metrics of this many epochs on the frontier, those nearest to the ideal "
        "corner.",
        *SWEEPS,
        kind=int,
        low=0,
    ),
    option(
        *(
            "constraint",
            None,
            "Threshold that a result must meet: utility>=0.7, or utility>=70% of No-unlearn; repeats.",
        ),
        *(*SWEEPS, PICK),
        repeats=True,
        metavar="METRIC>=VALUE",
    ),
    option(
        *("enqueue", None, "Point to try first: lr=1e-3,c=0.5, or a FILE of points; repeats.", PARETO),
        metavar="NAME=VALUE,...",
        **_FOLDERS,
    ),
    option(
        "warm_start", None, "Learn from the sweep in this folder before the first trial; repeats.", PARETO, **_FOLDERS
    ),
    option("reuse", None, "Reuse equal trials of the sweep in this folder; repeats.", *SWEEPS, **_FOLDERS),
    # A learning-rate study -------------------------------------------------------------------------------------------
    option(
        *(
            "seeds_vary",
            "order",
            "What a seed changes: order (of examples), target (also), or data (also; authors).",
            STUDY,
        ),
        **_STUDY,
    ),
    option(
        *("auto_lr_start_lr", None, "Learning rate AutoLR starts at; repeats.", STUDY),
        otherwise="every --lr",
        above=0.0,
        **{**_STUDY, **_NUMBERS},
    ),
    _trial(
        *("auto_lr_smoothing", STUDY),
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
    option(
        *("extend", False, "If the best rate is at the edge of the grid, also run up to 4 rates beyond it.", STUDY),
        kind=bool,
        changeable="For an lr-study: also run rates beyond the edge of its grid.",
        **_STUDY,
    ),
    option(
        *("primary", None, "The one question that is not corrected for the others: AutoLR with this method.", STUDY),
        metavar="METHOD[/VARIANT]",
        **_STUDY,
    ),
    option(
        *("folders", None, "Judge finished sweeps in these folders without running trials; repeats.", STUDY),
        flag="--from",
        **{**_STUDY, **_FOLDERS},
    ),
    # A trial ---------------------------------------------------------------------------------------------------------
    *_of_roles(*_ROLES),
    option("option", None, "Option of a method; repeats.", *RUNS, repeats=True, metavar="NAME=VALUE"),
    option(
        *("landscape", None, "Evaluate both losses at this many points along each AutoLR step.", RUN),
        otherwise="none; needs --auto-lr on and --out",
        kind=int,
        low=3,
        metavar="POINTS",
        **_COMMAND,
    ),
    # Where a sweep runs ----------------------------------------------------------------------------------------------
    option(
        *("gpus_per_trial", None, "GPUs per trial: 0.25 runs four trials on one GPU, auto as many as fit.", *SWEEPS),
        kind=float,
        words={"auto": "auto"},
        otherwise="1 if this machine has a GPU, else 0",
        **_PLACE,
    ),
    option("cpus_per_trial", 1.0, "CPU threads per trial.", *SWEEPS, kind=float, above=0.0, **_PLACE),
    option(
        "max_concurrent",
        None,
        "Maximum number of concurrent trials; with --address it may exceed what fits now, for nodes that join later.",
        *SWEEPS,
        kind=int,
        low=1,
        **_PLACE,
    ),
    option(
        *("address", None, "Address of a running Ray cluster to join, or 'auto' to find it.", *SWEEPS),
        changeable="Ray cluster to continue on; none for this machine alone.",
        **_PLACE,
    ),
    option(
        *(
            "no_ship",
            False,
            "With --address: do not send this project to the nodes (1.6 MB), because they have it.",
            *SWEEPS,
        ),
        kind=bool,
        changeable="Do not send this project to the nodes, because they have it.",
        **_PLACE,
    ),
    option(
        "storage",
        None,
        "Folder for Ray's own state; or the s3://, gs:// or abfs:// address of a bucket, through which everything that "
        "workers write travels.",
        *SWEEPS,
        otherwise="OUT/ray",
        is_path=True,
        **_PLACE,
    ),
    option("out", None, "Output folder.", *SWEEPS, otherwise="runs/NAME-TIME", **_NEW_FOLDER),
    option("out", None, "Folder for checkpoint/, history.csv and metrics.json.", RUN, **_NEW_FOLDER),
    option("out", None, "Copy the model's folder to this folder.", TARGET, **_NEW_FOLDER),
    option("out", None, "Folder for metrics.json and the per-item values, items.json.", EVALUATE, **_NEW_FOLDER),
    option("out", None, "If FOLDER is an address: the new local folder.", RESUME, otherwise="runs/NAME", **_NEW_FOLDER),
    # MLflow, and when a sweep ends -----------------------------------------------------------------------------------
    option(
        *("tracking_uri", None, "MLflow server or database.", *SWEEPS, "ui"),
        otherwise=f"$MLFLOW_TRACKING_URI, or {DEFAULT_TRACKING}",
        **_MLFLOW,
    ),
    option("experiment", "unlearning", "MLflow experiment.", *SWEEPS, **_MLFLOW),
    option("time_budget", None, "Seconds after which no new trial starts.", *SWEEPS, kind=float, above=0.0),
    option(
        *("epoch_budget", None, "Total number of trained epochs after which no new trial starts.", PARETO),
        kind=int,
        low=1,
        changeable="New total number of epochs to train.",
    ),
    option(
        *("until", None, "Stop when N trials have increased the hypervolume by at most X.", PARETO),
        metavar="plateau[:N:X]",
        otherwise="plateau means 10 trials and 0.001",
        changeable="New stopping rule, as in pareto; none removes it.",
    ),
    option(
        *(
            "retry",
            None,
            "failed: run failed trials again. Trials ended by a disk, memory or a node always run again.",
            RESUME,
        ),
        metavar="failed",
        choices=("failed",),
        **_COMMAND,
    ),
    # Other commands --------------------------------------------------------------------------------------------------
    option(
        "retain_only",
        False,
        "Train the retain model: the same recipe without the forget set.",
        TARGET,
        kind=bool,
        **_COMMAND,
    ),
    option("eval_log", None, "Evaluation log in the format of the TOFU authors.", EVALUATE, is_path=True, **_COMMAND),
    option(
        *("retain_eval_log", None, "Evaluation log of the model trained without the forget set.", EVALUATE),
        is_path=True,
        **_COMMAND,
    ),
    option(
        *("rule", None, "knee, constraint or success.", PICK),
        otherwise="the report's answer; constraint if limits are given",
        **_COMMAND,
    ),
    option(
        *("where", None, "Limit on any numeric column: 'lr<=1e-4'; repeats.", PICK),
        repeats=True,
        metavar="COLUMN<=VALUE",
        **_COMMAND,
    ),
    option(
        "maximize", None, "Take the largest value of this column.", PICK, repeats=True, metavar="COLUMN", **_COMMAND
    ),
    option(
        "minimize", None, "Take the smallest value of this column.", PICK, repeats=True, metavar="COLUMN", **_COMMAND
    ),
    *(
        option(f"{side}_{name}", None, f"At {word} this {name}.", PICK, kind=float, **_COMMAND)
        for name in LIMITED
        for side, word in (("max", "most"), ("min", "least"))
    ),
    option("copy_to", None, "Copy the checkpoint to this new folder.", PICK, **_NEW_FOLDER),
    option(
        "export",
        None,
        "Write a model with a model card to this new folder; it loads without this project.",
        PICK,
        **_NEW_FOLDER,
    ),
    option("merge", False, "With --export: merge a LoRA adapter into the full weights.", PICK, kind=bool, **_COMMAND),
    option(
        "register", None, "Register the checkpoint as a version of this MLflow model.", PICK, metavar="NAME", **_COMMAND
    ),
    option("alias", None, "With --register: alias of this version.", PICK, **_COMMAND),
    option("tracking_uri", None, "With --register: address of MLflow.", PICK, otherwise="the sweep's", **_MLFLOW),
    option(
        "port",
        None,
        "With --watch: port of the page.",
        "report",
        kind=int,
        low=0,
        high=65535,
        otherwise="a free port",
        **_COMMAND,
    ),
    option("port", 5000, "Port on this machine.", "ui", kind=int, **_COMMAND),
    option("older_than", 30.0, "... for this many days.", "cache", kind=float, low=0.0, **_COMMAND),
]
"""Every option of every command, in the order of ``--help``."""


def fields_of(command: str) -> dict[str, Field]:
    """Return the options of a command by name; those of ``resume`` are the settings that it can change."""
    if command != RESUME:
        return {item.name: item for item in DESCRIBED if command in item.commands}
    changed = [replace(item, help=item.changeable, otherwise="") for item in DESCRIBED if item.changeable]
    return {item.name: item for item in (*changed, *DESCRIBED) if item.changeable or RESUME in item.commands}


def named(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields by the names a file may use: the field's and its option's, with ``_`` instead of ``-``."""
    flags = {item.flag.removeprefix("--").replace("-", "_"): item for item in fields.values()}
    return {**fields, **flags}
