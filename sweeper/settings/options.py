"""The options of each command: one dataclass per command.

Each described dataclass field is an option of the command line, a key of ``--config`` files and a keyword in Python. A
dataclass with several base classes has the fields of its last base class first, also in ``--help``. ``--help`` imports
this module, so this module must not import slow packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, ClassVar

from sweeper.settings.fields import option, trial_option, trial_options
from sweeper.settings.names import (
    CRITERIA,
    DEFAULT_OBJECTIVES,
    DEFAULT_TRACKING,
    NO_ATTACKS,
    NO_FRESH_RUNS,
    PARETO,
    RUN,
    SAMPLERS,
    SCHEDULERS,
    STUDY,
)
from sweeper.settings.sources import Options
from trainables.spec import FIELDS

_SEEDS = "Number of runs of each configuration, with different seeds."
_CONSTRAINT = (
    "Threshold that a good model must meet, besides the criterion: utility>=0.7, or utility>=70% (at least 70% of the "
    "target's utility); can be repeated. It replaces the criterion's bound on the same metric."
)
_C = "Weight of the retain loss in gdiff; can be repeated."
_LR = "Learning rate; can be repeated."
_TRACKING = "Address of the MLflow server or database."
_DEFAULT_TRACKING = f"$MLFLOW_TRACKING_URI, or {DEFAULT_TRACKING}"
_OWN_TARGET = tuple(name for name in FIELDS if name.startswith("target_"))
"""The fields of a trial that describe how its target is made."""


def _plugin() -> tuple[str, ...]:
    return option(
        (),
        "Python file with methods, metrics, data, models or templates (docs/extend.md); can be repeated.",
        metavar="FILE",
        is_path=True,
    )


# Trials ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class MethodOptions(Options):
    """The method or methods."""

    method: tuple[str, ...] = trial_option(
        "method",
        (),
        help="Name of a method (see 'list methods'); can be repeated.",
        otherwise="gdiff, ngdiff; with the default model and data also undial+ngdiff",
    )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Options):
    """The model and its data. A value is None if the option is not given."""

    model: str | None = trial_option("model", None)
    model_path: str | None = trial_option("model_path", None)
    target_path: str | None = trial_option("target_path", None)
    dataset: str | None = trial_option("dataset", None)
    data: Mapping[str, Any] = trial_options("data", "placement")
    retain_path: str | None = trial_option("retain_path", None)
    questions: tuple[str, ...] = option(
        (),
        "Further question set, as columns NAME_fact_recall and NAME_recall: a file of rows with question and answer; "
        "can be repeated.",
        metavar="NAME=FILE",
    )
    lm_eval_tasks: str | None = option(
        None,
        "Folder with your own tasks of lm-eval (YAML files), for --metrics lm_eval:TASK.",
        metavar="DIR",
        is_path=True,
        otherwise="the tasks of lm-eval",
    )
    plugin: tuple[str, ...] = _plugin()
    out: str | None = None


@dataclass(frozen=True, kw_only=True)
class RateOptions(Options):
    """The weight of the retain loss, and the learning rate."""

    c: tuple[float, ...] = option((), _C)
    lr: tuple[float, ...] = trial_option("lr", (), help=_LR, otherwise="the model's range")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Options):
    """The other settings of a trial, and the options of its method."""

    training: Mapping[str, Any] = trial_options("training", "scoring", "method", "auto_lr")
    option: tuple[str, ...] = option((), "Option of a method; can be repeated.", metavar="NAME=VALUE")


# Sweeps ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ParetoFields:
    """The options of ``pareto`` that are settings of a sweep."""

    trials: int | None = option(
        None,
        "Number of trials.",
        low=1,
        otherwise="32 trials; 16 trials without a scheduler; for a grid search, one trial for each point and seed",
        after="space",
    )
    sampler: str = option(
        "tpe", f"Sampler: {', '.join(SAMPLERS[:-1])} or {SAMPLERS[-1]}.", choices=SAMPLERS, after="trials"
    )
    candidates: str = option(
        "all",
        "Which epochs of each trial may be on the frontier: all epochs, or only the last. Objectives other than losses "
        "are measured only every --metrics-every epochs and at the end of a trial.",
        choices=("all", "last"),
        after="objectives",
    )
    criterion: str = option(
        "usable",
        "What a good model must meet, besides --constraint: usable (it does not tell forgotten facts, tells retained "
        "facts, and answers retained questions fluently, compared with the target), paper (the paper's thresholds), or "
        "none.",
        choices=CRITERIA,
        otherwise="usable; paper with --space paper",
        after="attacks",
    )
    warm_start: tuple[str, ...] = option(
        (),
        "Let the sampler learn from the sweep in this folder before the first trial; can be repeated.",
        is_path=True,
        after="enqueue",
    )
    epoch_budget: int | None = option(
        None, "Total number of trained epochs after which no new trial starts.", low=1, after="time_budget"
    )
    until: str | None = option(
        None,
        "Stop the sweep when the last N trials have increased the hypervolume by at most X.",
        metavar="plateau[:N:X]",
        otherwise="none; 'plateau' means plateau:10:0.001",
        after="epoch_budget",
    )
    attacks: str = option(
        NO_ATTACKS,
        "After the search, attack the recommended model and models on or near the frontier: NAME,..., default, all or "
        "none (see 'list attacks').",
        metavar="NAME,...",
        after="front_metrics",
    )
    confirm: int | str | None = option(
        None,
        "After the search, train the recommended configuration again with K fresh seeds, and its runners-up if it does "
        "not hold; 'none' trains none.",
        metavar="K",
        low=1,
        words={NO_FRESH_RUNS: NO_FRESH_RUNS},
        otherwise="3 if they train at most a quarter of the search's epochs, otherwise none; none for --space paper",
        after="constraint",
    )


@dataclass(frozen=True, kw_only=True)
class SearchFields:
    """The options of both kinds of sweeps that are settings of a sweep: what is searched."""

    seeds: int = option(1, _SEEDS, low=1)
    seed: int = trial_option("seed", 0, help="Seed of the search and of the first run of each configuration.")
    objectives: str = option(DEFAULT_OBJECTIVES, "Metrics to optimise, with directions: NAME:max|min,NAME:max|min.")
    scheduler: str | None = option(
        None,
        "Scheduler: none, or moasha, which stops a trial early if other trials are better at the same epoch.",
        choices=SCHEDULERS,
        otherwise="moasha; none for a grid, several seeds, --candidates last, or objectives not measured every epoch",
    )
    grace: int = option(1, "Number of epochs after which the scheduler first compares trials.", low=1)
    reduction: int = option(
        2,
        "Reduction factor R: after each comparison, one in R trials continues, and is compared again after R times as "
        "many epochs.",
        low=2,
    )
    stopping: str = option(
        "stop",
        "What the scheduler does with a trial that is worse than others: stop ends the trial for good; pause keeps its "
        "state, and the trial continues later if enough new trials are worse.",
        choices=("stop", "pause"),
    )
    front_metrics: int | None = option(
        None,
        "At the end of the sweep, measure all metrics and store the answers of at most this many frontier epochs, and "
        "attack at most this many models. Epochs that meet the constraints come first, then those nearest to the best "
        "values of all objectives.",
        low=0,
        otherwise="24 measured epochs, 8 attacked models",
    )
    keep_checkpoints: str | None = option(
        None,
        "Maximum number of stored checkpoints, or their total size, such as 40GB. Checkpoints far from the best values "
        "of all objectives are deleted first; the recommended one and its two runners-up are kept.",
        metavar="N|SIZE",
        otherwise="all on the frontier, and the last of each trial",
    )
    constraints: tuple[str, ...] = option((), _CONSTRAINT, name="constraint", metavar="METRIC>=VALUE")
    reuse: tuple[str, ...] = option(
        (),
        "Instead of running a trial again, reuse its result from the sweep in this folder; can be repeated.",
        is_path=True,
    )


@dataclass(frozen=True, kw_only=True)
class StudyFields:
    """The options of ``lr-study`` that are settings of a sweep."""

    seeds_vary: str = option(
        "order",
        "What differs between seeds: the order of the examples (order), also the target (target), or also the "
        "generated data (data; only for --dataset authors).",
        choices=("order", "target", "data"),
        after="reuse",
    )
    extend: bool = option(
        False,
        "If the best learning rate is at an edge of the grid, also run up to 4 rates beyond that edge.",
        after="auto_lr_start_lr",
    )
    primary: str | None = option(
        None,
        "Method of the primary comparison, which is tested first. The other comparisons are tested only if the primary "
        "one is decided.",
        metavar="METHOD[/VARIANT]",
        after="extend",
    )
    describe: bool = option(
        False,
        "Allow a study that cannot decide, such as one with too few seeds, to describe its runs.",
        after="primary",
    )


@dataclass(frozen=True, kw_only=True)
class PlacementFields:
    """The options of ``pareto`` and ``lr-study`` that say where a sweep runs and when it ends."""

    gpus_per_trial: float | str | None = option(
        None,
        "GPUs per trial: 0.25 runs four trials on each GPU, and auto runs as many trials on each GPU as fit.",
        low=0.0,
        words={"auto": "auto"},
        otherwise="1; 0 with --address, or if this machine has no GPU",
    )
    cpus_per_trial: float = option(1.0, "CPU threads per trial.", above=0.0)
    max_concurrent: int | None = option(
        None,
        "Maximum number of concurrent trials. With --address, it may exceed the number of trials that fit now, because "
        "nodes may join later.",
        low=1,
    )
    address: str | None = option(None, "Address of a running Ray cluster to join; 'auto' finds the address.")
    no_ship: bool = option(
        False, "With --address: do not send this project (1.6 MB) to the nodes. The nodes must already have it."
    )
    storage: str | None = option(
        None,
        "Folder for Ray's state, or a bucket (s3://, gs:// or abfs://) through which workers exchange all files.",
        otherwise="OUT/ray",
        is_path=True,
    )
    tracking_uri: str | None = option(None, _TRACKING, otherwise=_DEFAULT_TRACKING)
    experiment: str = option("unlearning", "Name of the MLflow experiment.")
    time_budget_seconds: float | None = option(
        None, "Seconds after which no new trial starts.", name="time_budget", above=0.0
    )


def _repeated(name: str, after: str, help: str = "", **changes: Any) -> Any:
    """Return a dataclass field for a setting of a trial that can be repeated in a sweep."""
    return trial_option(name, (), help=f"{help or FIELDS[name].help} Can be repeated.", after=after, **changes)


@dataclass(frozen=True, kw_only=True)
class FactorOptions(Options):
    """The rule of the learning rate, and other settings that may differ between the trials of a sweep."""

    auto_lr: tuple[str, ...] = _repeated("auto_lr", after="lr")
    lr_decay: tuple[str, ...] = _repeated("lr_decay", after="auto_lr")
    on_divergence: tuple[str, ...] = _repeated("on_divergence", after="lr_decay")
    interpolate: tuple[str, ...] = _repeated("interpolate", after="on_divergence")
    update: tuple[str, ...] = _repeated("update", after="optimizer")
    auto_lr_probe: tuple[str, ...] = _repeated("auto_lr_probe", after="interpolate")
    auto_lr_probe_batches: tuple[int, ...] = _repeated("auto_lr_probe_batches", after="auto_lr_probe")
    auto_lr_delta: tuple[float, ...] = _repeated("auto_lr_delta", after="auto_lr_probe_batches")


FACTORS = tuple(item.name for item in fields(FactorOptions) if item.metadata and item.name != "auto_lr")
"""The settings of a trial, besides ``auto_lr``, that can be repeated in a sweep."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions(
    PlacementFields, TrainingOptions, SearchFields, FactorOptions, RateOptions, ModelOptions, MethodOptions
):
    """The options of both kinds of sweeps. ``space`` and ``enqueue`` are options of ``pareto`` only."""

    space: str | None = None
    enqueue: tuple[str, ...] = ()
    out: str | None = option(None, "Output folder.", otherwise="runs/NAME-TIME", is_path=True, after="storage")


@dataclass(frozen=True, kw_only=True)
class ParetoOptions(SweepOptions, ParetoFields):
    command: ClassVar[str] = PARETO

    attacking: Mapping[str, Any] = trial_options("attack")
    space: str | None = option(
        None,
        "Search space: 'paper' for the grid of the paper (all methods, learning rates and values of c, without and "
        "with AutoLR; last epochs; no scheduler), or a FILE.yaml.",
        is_path=True,
        after="auto_lr_delta",
    )
    enqueue: tuple[str, ...] = option(
        (),
        "Configuration to try first, such as lr=1e-3,c=0.5, or a FILE with a list of configurations; can be repeated.",
        metavar="NAME=VALUE,...",
        is_path=True,
        after="constraint",
    )


@dataclass(frozen=True, kw_only=True)
class LeaderboardOptions(ParetoOptions):
    """The options of ``leaderboard``. The options of ``pareto`` apply to the sweep of every cell."""

    command: ClassVar[str] = "leaderboard"

    method: tuple[str, ...] = option(
        (),
        "Method (see 'list methods'), or a method with an update (see 'list updates'), such as ngdiff:sam; can be "
        "repeated.",
        metavar="METHOD[:UPDATE]",
    )
    problem: tuple[str, ...] = option(
        (),
        "Model and data set of a problem, such as tiny-phi:authors or phi-1.5:tofu:forget01; can be repeated.",
        metavar="MODEL:DATASET[:SPLIT]",
        after="method",
    )
    seeds: int = option(8, "Number of training seeds. Each has its own target, search and fresh runs.", low=1)
    confirm: int | str | None = option(
        1, "Number of fresh training seeds on which the configuration that a cell recommends is trained again.", low=1
    )
    cells: str | None = option(
        None,
        "Rank the cells in this file (cells.csv, or a compressed copy) without running trials.",
        flag="--from",
        is_path=True,
        metavar="FILE",
        after="problem",
    )


@dataclass(frozen=True, kw_only=True)
class StudyOptions(SweepOptions, StudyFields):
    command: ClassVar[str] = STUDY

    c: tuple[float, ...] = option((), _C, otherwise=".9")
    lr: tuple[float, ...] = trial_option(
        "lr",
        (),
        help=_LR,
        otherwise="5 rates in the model's range, which is extended by a factor of 3.2 at both ends",
    )
    auto_lr: tuple[str, ...] = _repeated(
        "auto_lr",
        after="lr",
        help="Rule of AutoLR to compare with the fixed rates: gen (the paper's), gen-clip, gen-official, gen-trust or "
        "curvature.",
        otherwise="gen",
    )
    seeds: int = option(12, f"{_SEEDS} 12 seeds show a difference of 0.05 in up to 8 comparisons.", low=1)
    auto_lr_start_lr: tuple[float, ...] = option(
        (),
        "Learning rate with which AutoLR starts; can be repeated.",
        otherwise="every --lr",
        above=0.0,
        after="seeds_vary",
    )
    folders: tuple[str, ...] = option(
        (),
        "Evaluate the finished study in this folder without running trials; can be repeated.",
        flag="--from",
        is_path=True,
        after="describe",
    )


@dataclass(frozen=True, kw_only=True)
class ResumeOptions(Options):
    """The options of ``resume``. Those that :class:`.SweepSettings` has, too, change the sweep's settings."""

    command: ClassVar[str] = "resume"

    trials: int | None = option(None, "New total number of trials. A larger number continues a finished sweep.", low=1)
    extend: bool = option(False, "If the sweep is an lr-study: also run learning rates beyond the edge of its grid.")
    address: str | None = option(None, "Ray cluster on which to continue, or 'none' to continue on this machine alone.")
    no_ship: bool = option(False, "Do not send this project to the nodes. The nodes must already have it.")
    epoch_budget: int | None = option(
        None, "New total number of trained epochs after which no new trial starts.", low=1
    )
    until: str | None = option(
        None,
        "New stopping rule, in the format of 'pareto --until'; 'none' removes the rule.",
        metavar="plateau[:N:X]",
    )
    attacks: str | None = option(
        None, "Attacks on the models of the sweep, instead of the previous ones.", metavar="NAME,..."
    )
    out: str | None = option(
        None, "New local folder for the sweep if FOLDER is an address.", otherwise="runs/NAME", is_path=True
    )
    retry: str | None = option(
        None,
        "'--retry failed' runs failed trials again. Trials that failed because of a disk, memory or a node always run "
        "again.",
        metavar="failed",
        choices=("failed",),
    )


_ATTACK_EPSILON = (
    "Also attack stored models at most this far from the frontier in every objective, as a share of its range."
)


@dataclass(frozen=True, kw_only=True)
class AttackOptions(Options):
    command: ClassVar[str] = "attack"

    attacks: str = option("default", "Attacks: NAME,..., default or all (see 'list attacks').", metavar="NAME,...")
    epsilon: float | None = option(None, _ATTACK_EPSILON, low=0.0, high=1.0, otherwise="the sweep's, or 0.02")
    attacking: Mapping[str, Any] = trial_options("attack")
    front_metrics: int | None = option(
        None,
        "Maximum number of attacked models: the recommended one, its runners-up, and those nearest to the best values "
        "of all objectives.",
        low=1,
        otherwise="the sweep's",
    )


@dataclass(frozen=True, kw_only=True)
class ConfirmOptions(Options):
    command: ClassVar[str] = "confirm"

    runs: int = option(3, "Number of fresh runs for each configuration.", low=1, metavar="K")
    trial: str | None = option(None, "Train the configuration of this trial.", otherwise="the answer's", metavar="ID")
    epoch: float | None = option(
        None, "With --trial: the epoch to confirm.", otherwise="the trial's last epoch", above=0.0
    )


@dataclass(frozen=True, kw_only=True)
class AuditOptions(Options):
    command: ClassVar[str] = "audit"

    models: int | None = option(
        None,
        "Budget: number of models to fine-tune without the forget set, and again as many with it. A test at the 5% "
        "level needs at least 19.",
        otherwise="none: it must be given",
        low=2,
        metavar="N",
    )


# One model ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunOptions(TrainingOptions, RateOptions, ModelOptions, MethodOptions):
    """The options of ``unlearn``. A repeated option is a problem, which is reported with the others."""

    command: ClassVar[str] = RUN

    method: tuple[str, ...] = trial_option("method", ())
    lr: tuple[float, ...] = trial_option("lr", ())
    auto_lr: str = trial_option("auto_lr", "off", after="lr")
    seed: int = trial_option("seed", 0, after="auto_lr")
    landscape: int | None = option(
        None,
        "Evaluate the forget loss and the retain loss at this many points along each AutoLR step, and along the two "
        "gradients. Requires a rule of --auto-lr and --out.",
        otherwise="off",
        low=3,
        metavar="POINTS",
    )
    out: str | None = option(
        None, "Write checkpoint/, history.csv and metrics.json to this folder.", is_path=True, after="landscape"
    )
    tracking_uri: str | None = option(
        None, f"Record the run in MLflow, too. {_TRACKING} Requires --out.", otherwise="not recorded", after="out"
    )


@dataclass(frozen=True, kw_only=True)
class TargetOptions(ModelOptions):
    command: ClassVar[str] = "target"

    retain_path: str | None = None
    out: str | None = option(None, "Copy the model to this folder.", is_path=True)
    retain_only: bool = option(
        False, "Train the retain model, which is trained like the target but without the forget set."
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(ModelOptions):
    command: ClassVar[str] = "evaluate"

    model: str | None = trial_option("model", None, after="model_path")
    model_path: str | None = trial_option("model_path", None, help="Folder of the model or PEFT adapter to score.")
    target_path: str | None = trial_option(
        "target_path",
        None,
        help="Folder of the target, whose scores are shown beside the model's.",
        otherwise="the target of the sweep or run that contains the model, or an adapter's base model",
    )
    data: Mapping[str, Any] = trial_options("data", "placement", without=_OWN_TARGET)
    scoring: Mapping[str, Any] = trial_options("scoring", without=("metrics_every",))
    attacks: str = option(
        NO_ATTACKS,
        "Also attack the model: NAME,..., default, all or none (see 'list attacks').",
        metavar="NAME,...",
        after="metrics",
    )
    attacking: Mapping[str, Any] = trial_options("attack")
    out: str | None = option(
        None,
        "Write metrics.json and items.json (the metrics of each item) to this folder and, with all metrics of TOFU, "
        "TOFU_EVAL.json, TOFU_SUMMARY.json and a row for open-unlearning's leaderboard.",
        is_path=True,
        after="attacks",
    )
    eval_log: str | None = option(None, "Evaluation log in the format of the TOFU authors.", is_path=True)
    retain_eval_log: str | None = option(
        None, "Evaluation log of the model trained without the forget set.", is_path=True
    )


# Results --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PickOptions(Options):
    command: ClassVar[str] = "pick"

    trial: str | None = option(None, "Choose the model of this trial.", metavar="ID")
    epoch: float | None = option(
        None, "With --trial: epoch of the model.", low=0.0, otherwise="the stored epoch that the sweep's rule chooses"
    )
    constraint: tuple[str, ...] = option((), _CONSTRAINT, metavar="METRIC>=VALUE")
    rule: str | None = option(
        None,
        "How to choose the model: knee (nearest to the best values of all objectives), constraint (best metric of the "
        "retain set within the limits), success (like constraint, but only models that meet the criterion), or budget "
        "(forgets most within the limits, by default retain_kl<=0.01).",
        choices=("knee", "constraint", "success", "budget"),
        otherwise="the same model as the report; constraint if limits are given",
    )
    robust: bool = option(
        False,
        "Choose under attack: the model must also meet the criterion after each attack that is measured on the sweep.",
    )
    where: tuple[str, ...] = option(
        (),
        "Limit on any numeric column, such as 'verbmem<=0.1' or 'lr<=1e-4'; can be repeated.",
        metavar="COLUMN<=VALUE",
    )
    maximize: tuple[str, ...] = option((), "Choose the model with the largest value in this column.", metavar="COLUMN")
    minimize: tuple[str, ...] = option((), "Choose the model with the smallest value in this column.", metavar="COLUMN")
    copy_to: str | None = option(None, "Copy the checkpoint to this new folder.", is_path=True)
    export: str | None = option(
        None,
        "Write the model and a model card to this new folder. The model can be loaded without this project.",
        is_path=True,
    )
    merge: bool = option(False, "With --export: merge a LoRA adapter into the weights of its base model.")
    register: str | None = option(None, "Register the checkpoint as a version of this MLflow model.", metavar="NAME")
    alias: str | None = option(None, "With --register: alias of the registered version.")
    tracking_uri: str | None = option(None, "With --register: address of MLflow.", otherwise="the sweep's address")


@dataclass(frozen=True, kw_only=True)
class AskOptions(Options):
    command: ClassVar[str] = "ask"

    trial: tuple[str, ...] = option(
        (), "Ask the model of this trial; can be repeated.", metavar="ID", otherwise="the model that 'pick' chooses"
    )
    epoch: tuple[float, ...] = option(
        (),
        "Epoch of the trial. If --trial is repeated, give one epoch for each trial, in the same order.",
        otherwise="the stored epoch that the sweep's rule chooses",
        low=0.0,
    )


@dataclass(frozen=True, kw_only=True)
class MergeOptions(Options):
    command: ClassVar[str] = "merge"

    rule: str = option("negmerge", "How task vectors are merged: negmerge or mean.")
    trial: tuple[str, ...] = option(
        (), "Merge the last model of this trial; can be repeated.", metavar="ID", otherwise="all finished trials"
    )
    finetuned: tuple[str, ...] = option(
        (),
        "Folder of a model that was fine-tuned on the forget set, whose task vector is negated; can be repeated.",
        is_path=True,
    )
    checkpoint: str | None = option(
        None,
        "Folder of the model from which the models of --finetuned were fine-tuned, such as a base model that never saw "
        "the forget set.",
        is_path=True,
        otherwise="the target",
    )
    scale: float = option(1.0, "Factor of the merged task vector.", above=0.0)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    command: ClassVar[str] = "report"

    port: int | None = option(None, "With --watch: port of the page.", low=0, high=65535, otherwise="a free port")
    out: str | None = option(
        None, "Folder for the report; required for several sources.", otherwise="the source", is_path=True
    )
    watch: bool = option(
        False,
        "Until Ctrl-C, serve the report on a local page, and update the page when the tables change. Files are written "
        "only with --out.",
    )


@dataclass(frozen=True, kw_only=True)
class CompareOptions(Options):
    command: ClassVar[str] = "compare"

    out: str | None = option(None, "Write comparison.md, .tex, .csv and .html to this folder.", is_path=True)
    format: str = option("md", "Format to print: md, tex, csv or html.", choices=("md", "tex", "csv", "html"))


@dataclass(frozen=True, kw_only=True)
class ConfigOptions(Options):
    command: ClassVar[str] = "config"

    out: str | None = option(None, "Write the YAML to this new file instead of printing it.", is_path=True)


# Lists and this machine -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ListOptions(Options):
    command: ClassVar[str] = "list"

    plugin: tuple[str, ...] = _plugin()


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(Options):
    command: ClassVar[str] = "doctor"

    address: str | None = option(
        None, "Also check each node of the Ray cluster at this address; 'auto' finds the address."
    )
    shared: tuple[str, ...] = option(
        (),
        "With --address: check that all nodes can use this shared folder; can be repeated.",
        otherwise="cache folder",
        is_path=True,
    )
    storage: tuple[str, ...] = option(
        (),
        "Check that this machine and all nodes can use this s3://, gs:// or abfs:// address; can be repeated.",
        metavar="URI",
    )


@dataclass(frozen=True, kw_only=True)
class CacheOptions(Options):
    command: ClassVar[str] = "cache"

    older_than: float = option(30.0, "With --prune: days without use after which entries are removed.", low=0.0)
    prune: bool = option(False, "Remove the entries that have not been used for --older-than days.")


@dataclass(frozen=True, kw_only=True)
class UiOptions(Options):
    command: ClassVar[str] = "ui"

    tracking_uri: str | None = option(None, _TRACKING, otherwise=_DEFAULT_TRACKING)
    port: int = option(5000, "Port on this machine.")
    browser: bool = option(True, "In a desktop session, open the URL in the browser.")


COMMANDS: Mapping[str, type[Options]] = MappingProxyType(
    {
        item.command: item
        for item in tuple(vars().values())
        if isinstance(item, type) and issubclass(item, Options) and "command" in vars(item)
    }
)
"""The dataclass of each command, by the name of the command."""
