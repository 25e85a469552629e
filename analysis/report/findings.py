"""Build the collapsible sections of a report: sentences, tables and figures. Sections without data are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from analysis.figures.ablation import ablation_data
from analysis.frontier.frontier import frontier
from analysis.report.figures import caption
from analysis.report.render import paragraphs, say
from analysis.report.study import arms_table, differences_table, rates_table, sensitivity_line, verdict_lines
from analysis.study.fronts import arm_fronts
from analysis.study.lr_grid import lr_grid
from analysis.study.lr_study import LrStudy
from analysis.tables.problems import Problem
from analysis.tables.sources import Sources
from analysis.tables.trial_table import auto_lr_on
from analysis.words import DataTable, number

HEADINGS = {
    "sensitivity": "How much does the learning rate matter?",
    "auto_lr": "AutoLR against a fixed learning rate",
    "fronts": "Which frontier is best?",
    "compute": "How fast did the hypervolume grow?",
    "courses": "Training curves",
    "gradients": "Gradient norms and angles",
}
"""The heading of each section, keyed by its anchor, in the order of the page."""


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A drawn figure. ``name`` is the stem of the figure's file names in figures/."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One collapsible section of the page. ``anchor`` is the HTML id to which links lead."""

    anchor: str
    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[DataTable, ...] = ()
    figures: tuple[PageFigure, ...] = ()


def findings(
    sources: Sources,
    parts: Mapping[Problem, Sources],
    figures: Sequence[tuple[str, PageFigure]],
    study: LrStudy | None = None,
) -> Iterator[Finding]:
    """Yield the sections that have data. ``figures`` has pairs (anchor of a section, figure in this section).

    If the ``study`` has verdicts, the section on AutoLR shows these verdicts. Otherwise, the section describes the
    trials of each model and data set.
    """
    for anchor, heading in HEADINGS.items():
        shown = tuple(figure for place, figure in figures if place == anchor)
        sentences: tuple[str, ...] = ()
        tables: tuple[DataTable, ...] = ()
        if anchor == "sensitivity" and study is not None:
            sentences = tuple(f"{sensitivity_line(item)}." for item in study.compared)
            tables = tuple(rates_table(item, study.grid.columns) for item in study.compared)
        elif anchor == "auto_lr" and study is not None and study.verdicts:
            sentences = tuple(
                dict.fromkeys(f"{line}." for verdict in study.verdicts for line in verdict_lines(verdict))
            )
            tables = (differences_table(study),)
        elif anchor == "auto_lr":
            described = [(f"{problem}: " if len(parts) > 1 else "", *_auto_lr(part)) for problem, part in parts.items()]
            sentences = tuple(f"{name}{sentence}" for name, found, _ in described for sentence in found)
            tables = tuple(
                replace(item, caption=f"{name}{item.caption}") for name, _, found in described for item in found
            )
        elif anchor == "fronts" and sources.sweeps and sources.sweep.objectives:
            found = arm_fronts(lr_grid([(part.table, part.sweep.objectives) for part in sources.each_sweep]))
            tables = tuple(arms_table(fronts) for fronts in found if len(fronts.indicators) > 1)
        if shown or tables:
            yield Finding(anchor, heading, sentences, tables, shown)


def _auto_lr(sources: Sources) -> tuple[tuple[str, ...], tuple[DataTable, ...]]:
    """Return sentences and tables that compare AutoLR with fixed rates; () and () if only one of the two was run."""
    data = ablation_data(sources)
    if data is None:
        return (), ()
    own = sources.table.own
    on = auto_lr_on(own.trials)
    parts = {"AutoLR": own.of(own.trials[on]), "a fixed rate": own.of(own.trials[~on])}
    sentences = paragraphs(
        "page.auto_lr",
        hypervolumes={name: frontier(part, sources.sweep.objectives).hypervolume for name, part in parts.items()},
        finished={name: len(part.finished) for name, part in parts.items()},
        seeds=own.trials["seed"].nunique(),
    )
    cells = []
    for method in dict.fromkeys(change.method for panel in data.panels for change in panel.changes):
        found = [next((item for item in panel.changes if item.method == method), None) for panel in data.panels]
        texts = (f"{number(item.without)} \u2192 {number(item.with_auto)}" if item else "\u2013" for item in found)
        cells.append((method, *texts))
    labels = [
        panel.label.partition(" (")[0] + (f" ({panel.better} is better)" if panel.better else "")
        for panel in data.panels
    ]
    words = say("page.auto_lr_caption", caption=caption(data.caption))
    return sentences, (DataTable(words, ("method", *labels), tuple(cells)),)
