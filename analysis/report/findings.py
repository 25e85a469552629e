"""Build the collapsible sections of a report: sentences, tables and figures. Sections without data are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.frontier.frontier import frontier
from analysis.report.render import paragraphs
from analysis.report.study_text import arms_table, differences_table, rates_table, sensitivity_line, verdict_lines
from analysis.study.fronts import ArmFronts, arm_fronts
from analysis.study.lr_grid import lr_grid
from analysis.study.lr_study import LrStudy
from analysis.tables.problems import Problem
from analysis.tables.sources import Sources
from analysis.tables.trial_table import auto_lr_on
from analysis.words import DataTable

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
            described = {f"{problem}: " if len(parts) > 1 else "": _auto_lr(part) for problem, part in parts.items()}
            sentences = tuple(f"{name}{sentence}" for name, found in described.items() for sentence in found)
        elif anchor == "fronts" and sources.sweeps and sources.sweep.objectives:
            found = study.fronts if study else _fronts(sources)
            tables = tuple(arms_table(fronts) for fronts in found if len(fronts.indicators) > 1)
        if shown or tables:
            yield Finding(anchor, heading, sentences, tables, shown)


def _fronts(sources: Sources) -> tuple[ArmFronts, ...]:
    return arm_fronts(lr_grid([(part.table, part.sweep.objectives) for part in sources.each_sweep]))


def _auto_lr(sources: Sources) -> tuple[str, ...]:
    """Return sentences that compare AutoLR with fixed rates; () if only one of the two was run."""
    own = sources.table.own
    on = auto_lr_on(own.trials)
    if on.nunique() < 2:
        return ()
    parts = {"AutoLR": own.with_trials(own.trials[on]), "a fixed rate": own.with_trials(own.trials[~on])}
    return paragraphs(
        "page.auto_lr",
        hypervolumes={name: frontier(part, sources.sweep.objectives).hypervolume for name, part in parts.items()},
        finished={name: len(part.finished) for name, part in parts.items()},
        seeds=own.trials["seed"].nunique(),
    )
