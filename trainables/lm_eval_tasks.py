"""General ability, measured by tasks of lm-eval: ``--metrics lm_eval:TASK``.

A task is a plug-in: a file ``TASK.lm_eval.json`` names the task and the value of its results that is the metric. So
only the first command and the workers need the package lm-eval (https://github.com/EleutherAI/lm-evaluation-harness).
The file is copied to the sweep's folder, and its content is a part of the key under which measured values are cached.
A task of the user's own is read from its folder, whose files must not change.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import json
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.common.messages import did_you_mean, first_line
from trainables.metrics.metric import Cost, Metric
from trainables.plugins import Part, Plugin, PluginError

if TYPE_CHECKING:
    from trainables.scoring.language import ModelScores

PREFIX = "lm_eval:"
"""The beginning of the name of a task's metric set."""
ENDING = ".lm_eval.json"
"""The ending of the name of a file that describes a task."""
_PACKAGE = "lm_eval"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_SHARES = ("acc", "acc_norm", "acc_mutual_info", "exact_match", "f1")
"""The metrics of lm-eval whose values lie between 0 and 1."""
_CITATION = "Gao et al., The Language Model Evaluation Harness, 2024 (doi:10.5281/zenodo.12608602)"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task of lm-eval, and the value of its results that is the metric.

    Attributes:
        folder: the folder of the user's own tasks; "" for a task of lm-eval.
        digest: a hash of the files in this folder; "" for a task of lm-eval.
        version: the version of lm-eval.
        metric: the first metric of the task, such as ``acc``.
        higher_is_better: whether larger values of the metric are better.
    """

    name: str
    folder: str
    digest: str
    version: str
    metric: str
    higher_is_better: bool

    @property
    def plugin(self) -> Plugin:
        source = json.dumps(asdict(self), indent=2) + "\n"
        return Plugin(name=f"{self.name}{ENDING}", path=self.folder, source=source, parts=self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The metric of the task, as the part of a plug-in."""
        is_share = self.metric in _SHARES
        metric = Metric(
            name=f"lm_eval_{self.name}",
            label=f"{self.name}, {self.metric}",
            direction="max" if self.higher_is_better else "min",
            low=0.0 if is_share else float("-inf"),
            high=1.0 if is_share else float("inf"),
            descriptive=True,  # few models have a value, so it decides only as an objective or in a constraint
            after_search=True,
            sets=(f"{PREFIX}{self.name}",),
            cost=Cost.TASK,
            formula=f"{self.metric} of the task {self.name} in lm-eval {self.version}",
            citation=_CITATION,
            measure=self.measure,
        )
        return (Part("metric", metric.name, metric),)

    def measure(self, scores: ModelScores) -> float:
        """Return the metric of a model. The model and the random generators are the same afterwards.

        Raises:
            PluginError: the files of the user's own task have changed since the sweep started.
        """
        from trainables.attacks.model import editable
        from trainables.saved_state import kept_random_states

        if self.folder and _digest(Path(self.folder)) != self.digest:
            text = "the files have changed since the task was first used, so its values would not be comparable"
            raise PluginError(f"lm-eval task {self.name} in {self.folder}: {text}; restore the files")
        scorer = scores.evaluator.scorer
        # editable() restores the modes, because HFLM sets the evaluation mode, and merges an adapter.
        with kept_random_states(), _quiet(), _in_folder(self.folder), editable(scores.model) as model:
            import lm_eval
            from lm_eval.models.huggingface import HFLM

            found = lm_eval.simple_evaluate(
                model=HFLM(pretrained=model, tokenizer=scorer.tokenizer, batch_size=scorer.batch_size),
                tasks=[self.name],
                task_manager=_manager(self.folder),
                bootstrap_iters=0,
                log_samples=False,
            )
        assert found is not None
        return self._value(found["results"][self.name])

    def _value(self, results: dict[str, Any]) -> float:
        """Return the value of the metric with the first filter; the keys are pairs such as ``acc,none``."""
        return next(float(value) for key, value in results.items() if key.partition(",")[0] == self.metric)


def task_names(text: str) -> list[str]:
    """Return the names of the tasks in the value of ``--metrics``."""
    names = (name.strip() for name in text.split(","))
    return [name.removeprefix(PREFIX) for name in names if name.startswith(PREFIX)]


def find_tasks(names: Sequence[str], folder: Path | None) -> list[Plugin]:
    """Load tasks of lm-eval with their data, and return them as plug-ins.

    Args:
        folder: the folder of the user's own tasks, which come first; None if there are none.

    Raises:
        PluginError: lm-eval is not installed, a task is unknown, or its data cannot be loaded. The error lists all
            problems.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        flags = ", ".join(f"{PREFIX}{name}" for name in names)
        raise PluginError(f"--metrics {flags} needs lm-eval: pip install 'unlearning-sweeper[lm-eval]'")
    if folder is not None and not folder.is_dir():
        raise PluginError(f"--lm-eval-tasks {folder}: no such folder; expected a folder with YAML files of lm-eval")
    tasks: list[Task] = []
    problems: list[str] = []
    for name in dict.fromkeys(names):
        try:
            tasks.append(_find(name, folder))
        except PluginError as error:
            problems += error.problems
    if problems:
        raise PluginError(*problems)
    return [task.plugin for task in tasks]


def read_plugin(path: Path, *, user_path: str) -> Plugin:
    """Return the plug-in of a task from its file.

    Raises:
        PluginError: the file cannot be read.
    """
    try:
        source = path.read_text(encoding="utf-8")
        task = Task(**json.loads(source))
    except (OSError, ValueError, TypeError) as error:
        raise PluginError(f"lm-eval task {user_path} cannot be read: {first_line(error)}") from None
    return Plugin(name=path.name, path=user_path, source=source, parts=task.parts)


def _find(name: str, folder: Path | None) -> Task:
    title = f"--metrics {PREFIX}{name}"
    if not _NAME.fullmatch(name):
        raise PluginError(f"{title}: the name of a task may only contain letters, digits, '_', '-' and '.'")
    with _quiet():
        own = "" if folder is None else str(folder)
        manager = _manager(own)
        if folder is not None and name not in manager.all_tasks:
            own, manager = "", _manager("")
        if name not in manager.all_tasks:
            place = "lm-eval" if folder is None else f"{folder} or lm-eval"
            hint = did_you_mean(name, manager.all_tasks)
            text = f"{title}: {place} has no such task{f'; {hint}' if hint else ''}"
            remedy = "'lm-eval ls tasks' lists the tasks of lm-eval, and --lm-eval-tasks DIR adds your own"
            raise PluginError(f"{text}; {remedy}")
        try:
            with _in_folder(own):
                loaded = manager.load(name)
        except Exception as error:  # lm-eval, datasets and the hub's client raise many types of errors
            text = f"the task cannot be loaded ({type(error).__name__}: {first_line(error)[:200]})"
            remedy = "correct its YAML file" if own else "its data come from the hub, so check the network"
            raise PluginError(f"{title}: {text}; {remedy}, or leave out the task") from None
    first = next(iter(loaded["tasks"].values()))
    group = loaded.get("groups", {}).get(name)
    better = first.higher_is_better()
    names = list(better) if group is None else [item.metric for item in group.aggregate_metric_list or ()]
    if name not in loaded["tasks"] and not names:
        text = f"{name} is a set of {len(loaded['tasks'])} tasks without a common value"
        raise PluginError(f"{title}: {text}; name one of them, such as {PREFIX}{first.task_name}")
    version = importlib.metadata.version(_PACKAGE)
    digest = _digest(Path(own)) if own else ""
    return Task(
        name=name,
        folder=own,
        digest=digest,
        version=version,
        metric=names[0],
        higher_is_better=bool(better.get(names[0], True)),
    )


def _manager(folder: str) -> Any:
    """Return the manager of the tasks in a folder, or of lm-eval's own tasks."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=folder, include_defaults=False) if folder else _default_manager()


@functools.cache
def _default_manager() -> Any:
    """Return the manager of lm-eval's own tasks, which takes many seconds to list them."""
    from lm_eval.tasks import TaskManager

    return TaskManager()


def _digest(folder: Path) -> str:
    """Return a hash of the names and contents of all files in a folder, without compiled Python modules."""
    sha256 = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            sha256.update(f"{path.relative_to(folder)}\0".encode())
            sha256.update(path.read_bytes())
    return sha256.hexdigest()[:16]


@contextlib.contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Run the block in the folder of the user's own tasks, so that relative paths of data files start there."""
    with contextlib.chdir(folder) if folder else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide lm-eval's notes and progress bars while the block runs."""
    logger = logging.getLogger(_PACKAGE)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        logger.setLevel(level)
