"""The user's own sets of questions (``--questions NAME=FILE``), which are measured beside the forget and retain sets.

A question set is a plug-in: its file is copied to the sweep's folder, workers read the copy, and the content is a part
of the hash of each trial. It defines two metrics, ``NAME_fact_recall`` and ``NAME_recall``.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from trainables import plugins
from trainables.data.examples import STANDARD_SETS, Example
from trainables.data.files import read_file
from trainables.data.rows import question, read_rows
from trainables.metrics.fact_recall import FACTS_CITATION, FACTS_UNIT, mean_recall
from trainables.metrics.item_mean import item_mean
from trainables.metrics.metric import MUSE, Cost, Metric, Need
from trainables.plugins import QUESTION_SET, Part

METRIC_SET = "questions"
"""The metric set with the metrics of all question sets."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_USED = (*STANDARD_SETS, "forget", "retain", "holdout", "texts", "trained", "training", "retain_losses")
"""The names of the sets that data sets and evaluators define."""
_ENDINGS = (".json", ".jsonl", ".csv")


def name_problem(name: str) -> str | None:
    """Return the reason why a question set cannot have this name, or None."""
    if not _NAME.fullmatch(name):
        return f"the name '{name}' must consist of lower-case letters, digits and '_', and begin with a letter"
    return f"the name '{name}' is that of a set of the data; choose another name" if name in _USED else None


def file_problem(path: Path) -> str | None:
    """Return the reason why a file cannot be a question set, or None. The content is not read."""
    if not path.is_file():
        return f"no such file: {path}"
    return None if path.suffix in _ENDINGS else f"{path}: expected a file with the ending {', '.join(_ENDINGS)}"


def read_parts(name: str, path: Path) -> tuple[Part, ...]:
    """Return the questions in a file and their metrics, as the parts of a plug-in.

    Raises:
        DataError: the file cannot be read, or rows are malformed. The messages name the file and the lines.
    """
    examples = read_rows({name: read_file(path)}, {name: question})[name]
    parts = [Part(QUESTION_SET, name, examples)]
    return (*parts, *(Part("metric", metric.name, metric) for metric in metrics_of(name)))


def question_sets() -> dict[str, tuple[Example, ...]]:
    """Return the active question sets by name."""
    return {part.name: part.entry for plugin in plugins.active() for part in plugin.parts if part.kind == QUESTION_SET}


def metrics_of(name: str) -> tuple[Metric, Metric]:
    """Return the metrics of a question set. For a name that begins with ``forget``, lower values are better."""
    is_forget = name.startswith("forget")
    metric = partial(
        Metric,
        direction="min" if is_forget else "max",
        of="forget" if is_forget else "retain",
        sets=("default", "facts", METRIC_SET),
        needs=(Need(f"the question set {name}", lambda data, retain_model: name in data.extra_eval),),
        cost=Cost.GENERATION,
    )
    return (
        metric(
            name=f"{name}_fact_recall",
            label=f"facts told of {name}",
            unit=FACTS_UNIT,
            formula=f"as retain_fact_recall, on the question set {name}",
            citation=FACTS_CITATION,
            measure=lambda scores: mean_recall(scores.fact_recalls(name)),
        ),
        metric(
            name=f"{name}_recall",
            label=f"words told of {name}",
            unit="ROUGE-L recall",
            formula=f"mean ROUGE-L recall of greedy answers on the question set {name}",
            citation=MUSE,
            measure=lambda scores: item_mean(scores.recalls(name)),
        ),
    )
