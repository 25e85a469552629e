"""Problems with options, and the sentences that describe the problems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from types import MappingProxyType

CLI, PYTHON, STORED = "cli", "python", "stored"
"""The sources of option values that are not from a --config file: the command line, Python, and sweep.json."""

STATED = "stated"
"""The code of a problem whose sentence is the fact ``text``."""

SENTENCES: Mapping[str, str] = MappingProxyType(
    {
        STATED: "{text}",
        # Config files
        "config-unreadable": "--config {reason}; expected a YAML file",
        "config-not-options": "--config {path}: expected one option per line, such as 'trials: 32'",
        "config-nested": "{key} is nested too deeply",
        "config-unknown": "unknown option '{key}': {expected}",
        "config-twice": "{key} is given twice",
        "config-several": "{key} takes one value, got {values}",
        # Options of trials
        "model-unknown": "unknown model '{model}': {expected}, or a hub id ORGANISATION/NAME; or use --model-path DIR",
        "two-models": "--model-path and --target-path are mutually exclusive: a target needs no base model",
        "option-no-number": "--option must be NAME=VALUE with a number, got '{pair}'",
        "option-no-name": "--option must be NAME=VALUE, got '{pair}', which has no name",
        "no-effect": "{flag} has no effect, because AutoLR is off; to use AutoLR, {remedy}",
        "one-value": "{title} is given {count} times, but a single run takes one value; 'pareto' accepts several",
        "landscape-alone": "--landscape evaluates AutoLR's steps and writes a file: give --auto-lr on and --out DIR",
        "retain-only-target": (
            "--retain-only trains a base model: name this model with --model or --model-path, not --target-path"
        ),
        # The search
        "grid-infinite": "--sampler grid: {reason}",
        "grid-too-small": "--trials {trials} is more than the {size} trials of the grid",
        "nothing-compared": "{flags}: no effect, because no scheduler compares trials; give --scheduler moasha",
        "grace-too-long": (
            "--grace {grace}: trials end after {epochs} epochs and would never be compared; with --scheduler "
            "{scheduler}, --grace must be below --epochs"
        ),
        "grace-unevaluated": (
            "--grace {grace}: trials can be compared only after evaluated epochs; with --eval-every {every}, --grace "
            "must be a multiple of {every}"
        ),
        "enqueue-invalid": "--enqueue {text}: {reason}",
        "enqueue-grid": "--enqueue has no effect in a grid search, which visits every point; use another sampler",
        "enqueue-too-many": "--enqueue has {points}, which need {runs} over all seeds, more than --trials {trials}",
        "sampler-learns-nothing": (
            "--warm-start: the sampler {sampler} does not learn from trials; use one of {learning}"
        ),
        # Resources
        "trial-too-large": ("a trial takes {wanted:g} {unit}s, but this machine has {available} {unit}s: lower {flag}"),
        "gpus-out-of-range": "--gpus-per-trial must be a number from 0 to 1, or auto, got {gpus:g}",
        "gpus-several": (
            "--gpus-per-trial must be a number from 0 to 1, or auto, got {gpus:g}: a trial uses at most one GPU, "
            "because one process combines both gradients; if the GPU is too small for a trial, use --lora-rank, "
            "--micro-batch or --gradient-checkpointing"
        ),
        # A learning-rate study
        "batches-not-fresh": "--auto-lr-probe-batches applies only to --auto-lr-probe fresh, got {probes}",
        "seeds-vary-unknown": "--seeds-vary must be one of {expected}, got '{varied}'",
        "seeds-vary-target": (
            "--seeds-vary {varied}: --target-path names one finished target, so only the order of the examples can vary"
        ),
        "seeds-vary-data": (
            "--seeds-vary data: data set {dataset} is read from files and not generated, so its content cannot vary; "
            "vary order or target, or use --dataset authors"
        ),
        "primary-method": "--primary {primary}: expected one of the methods of this study, {methods}",
        "primary-several": (
            "--primary {primary}: this study has {count} AutoLR variants of the method; name one of them: {questions}"
        ),
        "primary-variant": "--primary {primary}: this study has no such variant of AutoLR: expected {questions}",
        # lr-study --from
        "from-several": "--from with several folders needs --out FILE.json for the result",
        "from-primary": (
            "--primary {primary}: only a new study can name a primary comparison; finished studies keep theirs, so "
            "leave out --primary"
        ),
        "from-dry-run": "--dry-run has no effect with --from, which runs no trials",
        "from-extend": "--extend has no effect with --from, which runs no trials; to add rates, use resume --extend",
        "from-trials": "{flag} is an option of trials, but --from runs no trials",
        # resume
        "resume-out": "--out {out}: the sweep continues in {folder}; --out is only for a sweep in a bucket",
        "resume-no-sweep": "{uri} holds no sweep: there is no sweep.json in it",
        "resume-no-study": "--extend: the sweep in {out} is not a learning-rate study, so it has no grid to extend",
        "resume-too-few": "--trials {trials} is the new total, but {ended} trials have ended: give at least {ended}",
        "resume-grid": (
            "--trials {trials}: the grid of this sweep has only {size} trials; start a new sweep with more values or "
            "seeds and --reuse {out}, which runs only the missing trials"
        ),
        # Output folders
        "out-empty": "--out must be the name of a folder, got nothing",
        "out-address": (
            "--out {out}: the output folder cannot be in object storage; expected a local folder, or for a cluster a "
            "folder that all nodes share (NFS); to exchange the files of workers through a bucket, use --storage"
        ),
        "out-file": "--out {out}: {file} is a file, expected a folder",
        "out-not-writable": "--out {out}: {folder} is not writable",
        "out-sweep": (
            "--out {out}: the folder holds another sweep; continue that sweep with '{command}', or name another folder"
        ),
        "out-not-empty": "--out {out}: the folder is not empty; name a new or an empty folder",
        "out-others-report": (
            "--out {out}: the folder holds a sweep, whose own report would be overwritten; name another folder"
        ),
        "out-exists": "--out {out}: the file exists already; name a new file",
        # Other files and services
        "model-is-folder": "--model {model}: this is a folder; give it with --model-path {model}",
        "model-folder-missing": (
            "{flag} {folder}: no such folder; expected a model folder with config.json, safetensors and a tokenizer"
        ),
        "model-folder": "{flag} {folder}: {reason}",
        "no-chat-template": "template chat: {whose} has no chat template; {remedy}",
        "storage-file": "--storage {storage}: this is a file, expected a folder",
        "previous-unusable": "{flag} {folder}: {reason}",
        "previous-objectives": (
            "{flag} {folder}: that sweep optimises {theirs}, but this sweep optimises {ours}: metrics and directions "
            "must be the same"
        ),
        # report, compare, evaluate, doctor
        "port-alone": "--port is the port of the page that --watch shows: give --watch too",
        "watch-json": "--watch serves a page until Ctrl-C, and --json prints one result: give only one of them",
        "watch-run": "--watch: {folder} is a single run, which has figures but no page; leave out --watch",
        "sources-out": "a report of several sources needs --out FOLDER, the folder to write it to",
        "sources-twice": "a source is given twice",
        "sources-no-sweep": (
            "none of the sources is a sweep: give at least one sweep's folder, because it defines the objectives"
        ),
        "compare-nothing": "name at least one sweep folder or CSV file to compare",
        "format-unknown": "unknown format '{format}': {expected}",
        "evaluate-one": "evaluate needs either --model-path DIR (a model to score) or --eval-log FILE (a log to read)",
        "evaluate-log": "{flags}: only for --model-path; with --eval-log, the log determines the items and metrics",
        "evaluate-model": "--retain-eval-log is only for --eval-log; with --model-path, use --retain-model DIR",
        "shared-alone": "--shared names a folder that the nodes of a cluster share: give --address too",
        "storage-folder": "--storage {storage} is a folder: use --shared for folders, together with --address",
    }
)
"""For each code, a sentence that says what was given, what was expected, and what to do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with an option.

    Attributes:
        code: a key of :data:`SENTENCES`.
        field: the name of the option, or "" if unknown.
        source: the source of the option's value, or "" if unknown.
        facts: the values for the placeholders in the sentence.
    """

    code: str
    field: str = ""
    source: str = ""
    facts: Mapping[str, object] = dataclass_field(default_factory=dict, hash=False)

    @property
    def text(self) -> str:
        """The sentence for the user, without the file and line of the option's value."""
        return SENTENCES[self.code].format_map(self.facts)

    def __str__(self) -> str:
        return self.text if self.source in ("", CLI, PYTHON, STORED) else f"{self.source}: {self.text}"


def stated(text: str, field: str = "", source: str = "") -> Problem:
    """Return a problem that is described by the sentence ``text``."""
    return Problem(STATED, field, source, {"text": text})


def problem(code: str, field: str = "", **facts: object) -> Problem:
    """Return a problem whose source is not recorded."""
    return Problem(code, field, facts=facts)


class Problems(Exception):
    """All problems with the given options. Raised before any work starts."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem | str]) -> None:
        # Several checks may report the same problem, with and without its source.
        first = {getattr(item, "text", item): str(item) for item in reversed(problems)}
        self.problems = tuple(reversed(first.values()))
        super().__init__("; ".join(self.problems))


def refuse(problems: Sequence[Problem | str]) -> None:
    """Raise :class:`Problems` if there are any problems."""
    if problems:
        raise Problems(problems)
