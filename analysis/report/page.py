"""Render report.html: the recommended models, then collapsible sections with figures and tables."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from analysis.audit.audit import audit_of
from analysis.figures.page_charts import page_charts
from analysis.figures.pareto import sweep_title
from analysis.figures.vega import vega_script
from analysis.frontier.choice import Choice
from analysis.frontier.frontier import Frontier
from analysis.frontier.pareto_json import json_value
from analysis.report.answer import Answer
from analysis.report.audit import audit_sentences, audit_tables
from analysis.report.outcomes import cost, early_stops, failures, status_counts
from analysis.report.render import note_text, render, render_line, render_lines, sentence
from analysis.report.study_text import (
    arms_table,
    rates_table,
    sensitivity_line,
    study_cautions,
    study_lines,
    study_title,
    verdict_lines,
    verdicts_table,
)
from analysis.report.trials import anchors, charts, listed_trials, page_data, trials_section
from analysis.study.fronts import arm_fronts
from analysis.study.lr_grid import lr_grid
from analysis.study.lr_study import LrStudy
from analysis.tables.note import Note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.sources import Sources
from analysis.tables.tasks import Task
from analysis.tables.trial_table import is_merged
from analysis.words import DataTable, number

HEADINGS = {
    "attacks": "Does the frontier survive attacks?",
    "sensitivity": "How much does the learning rate matter?",
    "auto_lr": "AutoLR against a fixed learning rate",
    "fronts": "Which frontier is best?",
    "audit": "As if never seen?",
    "compute": "How fast did the hypervolume grow?",
    "courses": "Training curves",
    "gradients": "Gradient norms and angles",
}
"""The headings of the sections in the order of the page, keyed by anchor."""
SCRIPTS = ("selection.js", "charts.js", "rule.js", "decide.js", "map.js", "answers.js", "report.js")
"""The scripts of the page, in order. The first one defines the selection (:mod:`analysis.report.candidates`)."""

_SVG_ADDRESS = "data:image/svg+xml;base64,"
VEGA_MARK = "<!--vega-->"


@dataclass(frozen=True, slots=True)
class PageFigure:
    """A drawn figure. ``name`` is the stem of its files in figures/, and ``svg`` is the SVG document."""

    name: str
    title: str
    caption: str
    svg: str

    @property
    def address(self) -> str:
        """The image as a ``data:`` address. In an image, names from the sweep cannot become a part of the page."""
        return _SVG_ADDRESS + base64.b64encode(self.svg.encode()).decode()


@dataclass(frozen=True, slots=True)
class Section:
    """One collapsible section of the page. ``anchor`` is its HTML id."""

    anchor: str
    heading: str
    sentences: tuple[str, ...] = ()
    tables: tuple[DataTable, ...] = ()
    figures: tuple[PageFigure, ...] = ()


def page_sections(
    sources: Sources, figures: Sequence[tuple[str, PageFigure]], study: LrStudy | None = None
) -> Iterator[Section]:
    """Yield the sections that have figures or tables. ``figures`` has pairs (anchor of the section, figure)."""
    for anchor, heading in HEADINGS.items():
        section_figures = tuple(figure for section, figure in figures if section == anchor)
        sentences: tuple[str, ...] = ()
        tables: tuple[DataTable, ...] = ()
        if anchor == "sensitivity" and study is not None:
            sentences = tuple(f"{sensitivity_line(item)}." for item in study.compared)
            tables = tuple(rates_table(item, study.grid.columns) for item in study.compared)
        elif anchor == "auto_lr" and study is not None and study.verdicts:
            sentences = tuple(
                dict.fromkeys(f"{line}." for verdict in study.verdicts for line in verdict_lines(verdict))
            )
            tables = (verdicts_table(study),)
        elif anchor == "fronts" and sources.sweeps and sources.sweep.objectives:
            boxes = [(source.table, source.sweep.objectives) for source in sources.each_sweep]
            all_fronts = study.fronts if study else arm_fronts(lr_grid(boxes))
            tables = tuple(arms_table(fronts) for fronts in all_fronts if len(fronts.indicators) > 1)
        elif anchor == "audit":
            audits = [audit for source in sources.each_sweep if (audit := audit_of(source.table, source.sweep))]
            sentences = tuple(line for audit in audits for line in audit_sentences(audit))
            tables = tuple(table for audit in audits for table in audit_tables(audit))
        if section_figures or tables:
            yield Section(anchor, heading, sentences, tables, section_figures)


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer for one unlearning task.

    Attributes:
        anchor: the suffix of all HTML ids of this task; "" if there is only one task.
        answers: the models' answers (:func:`analysis.report.answers.answers_data`); None if no answers are stored.
        hypervolumes: the hypervolume of the frontier in each additional reference box, keyed by box.
    """

    title: str
    anchor: str
    choice: Choice
    answer: Answer
    answers: Mapping[str, Any] | None
    front: Frontier
    hypervolumes: Mapping[str, float]
    fresh: Mapping[str, Any]


def page(
    sources: Sources,
    answers: Sequence[PageAnswer],
    sections: Sequence[Section],
    notices: Sequence[str],
    *,
    study: LrStudy | None,
    candidates: Mapping[str, Any],
) -> str:
    """Return the self-contained HTML page. If a study is given, the page starts with the study's answer.

    Args:
        candidates: the table of all candidates (:func:`analysis.report.candidates.candidates_data`).
    """
    templates = resources.files("analysis.report").joinpath("templates")
    style, bibtex = (templates.joinpath(name).read_text("utf-8") for name in ("report.css", "cited.bib"))
    script = "".join(templates.joinpath(name).read_text("utf-8") for name in SCRIPTS)
    table, sweep = sources.table, sources.sweep
    vega = vega_script() if candidates["shown"] or len(table.history) else ""
    on_front = {trial_id for item in answers for trial_id in item.front.trial_ids}
    listed = listed_trials(table, on_front)
    if study:
        headline = study_title(study)
    elif len(answers) > 1:
        headline = render_line("page.headline", tasks=len(answers))
    else:
        headline = answers[0].answer.headline
    html = render(
        "report.html.j2",
        title=sweep_title(table, sweep),
        headline=headline,
        study_answer=study_lines(study) if study else (),
        cautions=study_cautions(study) if study else (),
        is_judged=study is not None and bool(study.verdicts),
        digests=[base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (vega, script) if text],
        charts=page_charts(),
        script=script,
        style=style,
        answers=answers,
        sections=sections,
        notices=notices,
        anchors=anchors(listed),
        every_epoch=table.every_epoch,
        trials=trials_section(listed, sweep.objectives, on_front),
        trial_count=len(table.trials),
        status_counts=status_counts(table),
        merged=int(is_merged(table.trials).sum()),
        failures=failures(table),
        cost=cost(table),
        early_stops=early_stops(table),
        sweeps=sources.sweeps,
        seeds=sorted({number(json_value(seed)) for seed in table.trials["seed"] if json_value(seed) is not None}),
        settings=[json.dumps(json_value(dict(item.settings)), indent=2) for item in sources.sweeps],
        bibtex=bibtex.strip(),
        candidates=candidates,
        written=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        data={
            "trials": page_data(listed),
            "baseline": dict(sweep.baseline),
            "guess": sweep.random_guess_loss,
            "charts": charts(listed),
        },
    )
    # The bundle is inserted last, because rendering replaces control characters. Data cannot contain the mark.
    return html.replace(VEGA_MARK, f"<script>{vega}</script>" if vega else "", 1)


def page_notices(
    sources: Sources, notes: Sequence[Note], answers: Mapping[Task, PageAnswer], study: LrStudy | None
) -> tuple[str, ...]:
    """Return the notices at the top of the page."""
    table, sweep = sources.table, sources.sweep
    finished, names = set(table.finished["trial_id"]), set(table.trials["sweep"])
    outside = values_outside(table.trials, sweep.columns)
    unscored = [trial_id for item in answers.values() for trial_id in item.front.unscored if trial_id in finished]
    return render_lines(
        "page.notices",
        tasks=list(answers),
        ended=len(table.searched),
        planned=table.planned(sweep),
        running=len(table.running),
        unscored=list(dict.fromkeys(unscored)) if sweep.objectives else [],
        # A note that starts with the name of a source must not be capitalized.
        notes=[
            note_text(note) if note.source in names else sentence(note_text(note))
            for note in dict.fromkeys([*notes, *outside])
        ],
        study_notes=[note_text(note) for note in dict.fromkeys(study.notes if study else ())],
    )
