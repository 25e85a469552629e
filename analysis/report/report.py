"""Write report.html, pareto.json and the figures from the tables of a sweep."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from analysis.figures.draw_pareto import draw_pareto
from analysis.figures.gallery import gallery
from analysis.figures.pareto import ParetoData, pareto_data, score_objectives, scores_data, sweep_title
from analysis.figures.svg import inline_svg, save_figure
from analysis.frontier.frontier import Frontier, frontier
from analysis.frontier.indicators import further_objectives
from analysis.frontier.judgement import ModelChoice, choose_model
from analysis.frontier.pareto_json import pareto_content, plain
from analysis.report.answer import Answer, answer
from analysis.report.example_answers import ExampleAnswers, example_answers
from analysis.report.outcomes import cost, early_stops, ended_as, failures
from analysis.report.render import listed, note_text, paragraphs, render, say, sentence
from analysis.report.study_text import (
    arms_table,
    differences_table,
    rates_table,
    sensitivity_line,
    study_cautions,
    study_lines,
    study_title,
    verdict_lines,
)
from analysis.report.trials import anchors, charts, page_data, point_labels, trials_section
from analysis.study.fronts import arm_fronts
from analysis.study.lr_grid import lr_grid
from analysis.study.lr_study import LrStudy, study_in
from analysis.tables.columns import Columns, short
from analysis.tables.note import Note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.problems import Problem, by_problem, file_stem
from analysis.tables.sources import Sources, read_source, read_sources
from analysis.tables.trial_table import auto_lr_on
from analysis.words import DataTable, number
from search_spaces.durable import write_json, write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure


HEADINGS = {
    "sensitivity": "How much does the learning rate matter?",
    "auto_lr": "AutoLR against a fixed learning rate",
    "fronts": "Which frontier is best?",
    "compute": "How fast did the hypervolume grow?",
    "courses": "Training curves",
    "gradients": "Gradient norms and angles",
}
"""The heading of each section, keyed by the anchor of the section, in the order of the page."""


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
    """Yield the sections that have figures or tables. ``figures`` has pairs (anchor of the section, figure).

    If the ``study`` has verdicts, the section on AutoLR shows these verdicts. Otherwise, the section describes the
    trials on each problem (model and data set).
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
            alone = [(part.table, part.sweep.objectives) for part in sources.each_sweep]
            found = study.fronts if study else arm_fronts(lr_grid(alone))
            tables = tuple(arms_table(fronts) for fronts in found if len(fronts.indicators) > 1)
        if shown or tables:
            yield Finding(anchor, heading, sentences, tables, shown)


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


class PageFrontier(NamedTuple):
    """A frontier as ``<svg>``. ``kind`` and ``labels`` name the axes if these are not the objectives; else empty."""

    svg: str
    kind: str
    labels: Sequence[str]


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer for one problem (model and data set).

    ``anchor`` is the suffix of HTML ids; "" if there is only one problem. ``hypervolumes`` has the hypervolume in each
    additional reference box, keyed by the name of the box.
    """

    title: str
    anchor: str
    choice: ModelChoice
    answer: Answer
    examples: ExampleAnswers | None
    front: Frontier
    hypervolumes: Mapping[str, float]
    frontiers: Sequence[PageFrontier] = ()


def write_report(out: Path, sources: Sequence[Path] = ()) -> None:
    """Write pareto.json, pareto.png, pareto.svg, figures/ and report.html into the sweep's folder ``out``.

    While the sweep runs, the files contain the trials that have ended. Each file is replaced atomically. If ``sources``
    (folders of sweeps or runs, CSV tables) are given, the report is about these sources, and ``out`` may be any folder.

    Raises:
        AnalysisError: a table or sweep.json cannot be read. Nothing is written in this case.
        OSError: a file cannot be written into the folder.
    """
    read = read_sources(list(sources) or [out], out=out)
    parts, notes = by_problem(read)
    study = study_in(read)
    # If all sweeps are learning-rate studies, the page starts with the verdicts.
    is_study = bool(read.sweeps) and all(sweep.settings.get("kind") == "lr-study" for sweep in read.sweeps)
    wanted = gallery(read, study, parts)
    answers = {
        problem: _answered(out, problem, part, anchor=f"-{i}" if len(parts) > 1 else "")
        for i, (problem, part) in enumerate(parts.items())
    }
    content = _content(parts, answers)
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for section, data, draw in wanted:
        document = save_figure(draw(data), out / "figures", data.name)
        facts = data.caption or Note("")
        text = say(f"figure_captions.{facts.code}", **dict(facts.facts)) if facts.code else ""
        text = f"{facts.source}. {text}" if facts.source else text
        svg = inline_svg(document, prefix=data.name.replace("_", "-"), description=f"{data.title}. {text}")
        figures.append((section, PageFigure(data.name, text, svg)))
    page_answers = [
        replace(item, frontiers=list(_drawn(out, problem, parts[problem], read, item)))
        for problem, item in answers.items()
    ]
    page = _page(
        read,
        page_answers,
        list(findings(read, parts, figures, study)),
        _notices(read, notes, answers, study),
        study=study if is_study else None,
    )
    write_json(out / "pareto.json", plain(content))
    write_whole(out / "report.html", page)


def write_run_figures(run: Path, columns: Columns, out: Path | None = None) -> list[Path]:
    """Draw the figures of a single run (landscape, AutoLR log, training curves). Return the paths of the PNG files.

    The files are written to the folder ``figures`` in ``out`` (default: the run's folder). ``columns`` is the column
    dictionary of the run's tables.

    Raises:
        AnalysisError: the run's files cannot be read.
        OSError: a file cannot be written into the folder.
    """
    folder = (out or run) / "figures"
    items = gallery(read_source(run, columns))
    for _, data, draw in items:
        save_figure(draw(data), folder, data.name)
    return [folder / f"{data.name}.png" for _, data, _ in items]


def draw_frontier(data: ParetoData, *, links: Mapping[str, str] | None = None) -> Figure:
    """Draw the frontier figure with subtitle and notes."""
    subtitle = say("figure_frontier.subtitle", counts=data.counts).replace(" · ", "  \u00b7  ")
    notes = [f"{sentence(note_text(note))}." for note in data.notes]
    return draw_pareto(data, subtitle=subtitle, notes=notes, links=links or {})


def _answered(out: Path, problem: Problem, part: Sources, *, anchor: str) -> PageAnswer:
    table, sweep = part.table, part.sweep
    front, choice = frontier(table.models, sweep.objectives), choose_model(table, sweep)
    found, row = answer(table, sweep, front, choice), choice.row
    boxes = further_objectives(sweep.objectives, sweep.columns, table.models.measured(sweep.columns.metrics))
    return PageAnswer(
        title=sweep_title(table, sweep) + (f" ({problem.apart})" if problem.apart else ""),
        anchor=anchor,
        choice=choice,
        answer=found,
        examples=example_answers(out, found.model.checkpoint, str(row.get("target_key", "")))
        if found.model is not None and found.model.checkpoint and row is not None
        else None,
        front=front,
        hypervolumes={name: frontier(table.models, box).hypervolume for name, box in boxes.items()},
    )


def _drawn(out: Path, problem: Problem, part: Sources, read: Sources, item: PageAnswer) -> Iterator[PageFrontier]:
    """Draw and save two frontiers: over the objectives and over the primary scores. Yield them for the page."""
    table, sweep = part.table, part.sweep
    scores = score_objectives(table, sweep)
    units = {table.columns[score.column].unit for score in scores}
    # If both scores have the unit "ROUGE-L recall", the figure is named ROUGE. Otherwise, the name lists the scores.
    unit = units.pop().partition("-")[0] if len(units) == 1 else ""
    wanted: list[tuple[str, ParetoData, str, list[str]]] = []
    if len(sweep.objectives) > 1:
        wanted.append(("pareto", pareto_data(table, sweep, item.choice), "", []))
        if (data := scores_data(table, sweep, item.choice)) is not None:
            names, labels = zip(*((short(x.column), table.columns.label(x.column)) for x in scores), strict=True)
            wanted.append((file_stem("pareto", unit.lower() or "scores"), data, unit or listed(names), list(labels)))
    links, points = anchors(read.table), point_labels(table, read.sweep.objectives)
    for name, data, kind, axes in wanted:
        stem = file_stem(name, *problem.names) if item.anchor else name
        document = save_figure(draw_frontier(data, links=links), out if stem == "pareto" else out / "figures", stem)
        words = say("page.frontier", data=data)
        svg = inline_svg(document, prefix=stem.replace("_", "-"), description=words, labels=points)
        yield PageFrontier(svg, kind, axes)


def _page(
    sources: Sources,
    answers: Sequence[PageAnswer],
    sections: Sequence[Finding],
    notices: Sequence[str],
    *,
    study: LrStudy | None,
) -> str:
    """Return the HTML page, which loads no other file. With a ``study``, the page starts with the study's answer."""
    templates = resources.files("analysis.report").joinpath("templates")
    script, style, bibtex = (
        templates.joinpath(name).read_text("utf-8") for name in ("report.js", "report.css", "cited.bib")
    )
    # The content security policy allows only the script with this hash.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    table, sweep = sources.table, sources.sweep
    on_front = {trial_id for item in answers for trial_id in item.front.trial_ids}
    several = say("page.headline", problems=len(answers)) if len(answers) > 1 else answers[0].answer.headline
    return render(
        "report.html.j2",
        title=sweep_title(table, sweep),
        headline=study_title(study) if study else several,
        study_answer=study_lines(study) if study else (),
        cautions=study_cautions(study) if study else (),
        is_judged=study is not None and bool(study.verdicts),
        digest=digest,
        script=script,
        style=style,
        answers=answers,
        findings=sections,
        notices=notices,
        anchors=anchors(table),
        every_epoch=table.every_epoch,
        trials=trials_section(table, sweep.objectives, on_front),
        ended_as=ended_as(table),
        failures=failures(table),
        cost=cost(table),
        early_stops=early_stops(table),
        sweeps=sources.sweeps,
        seeds=sorted({number(plain(seed)) for seed in table.trials["seed"] if plain(seed) is not None}),
        settings=[json.dumps(plain(dict(item.settings)), indent=2) for item in sources.sweeps],
        bibtex=bibtex.strip(),
        written=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        data={
            "trials": page_data(table),
            "baseline": dict(sweep.baseline),
            "guess": sweep.random_guess_loss,
            "charts": charts(table),
        },
    )


def _content(parts: Mapping[Problem, Sources], answers: Mapping[Problem, PageAnswer]) -> dict[str, object]:
    """Return the content of pareto.json.

    If there are several problems, ``front`` has the models of all frontiers, and ``places`` an entry for each problem.
    """
    contents = {
        problem: pareto_content(item.front, parts[problem].table, parts[problem].sweep)
        | {"further_hypervolumes": dict(item.hypervolumes), "answer": item.answer.to_dict()}
        for problem, item in answers.items()
    }
    first = next(iter(contents.values()))
    if len(parts) == 1:
        return first
    every = [member for content in contents.values() for member in cast("list[object]", content["front"])]
    each = [problem._asdict() | content for problem, content in contents.items()]
    # Different problems do not share a reference box or a target.
    return first | {"hypervolume": None, "baseline": None, "answer": None, "front": every, "places": each}


def _notices(
    sources: Sources, notes: Sequence[Note], answers: Mapping[Problem, PageAnswer], study: LrStudy | None
) -> tuple[str, ...]:
    table, sweep = sources.table, sources.sweep
    finished, names = set(table.finished["trial_id"]), set(table.trials["sweep"])
    outside = values_outside(table.trials, sweep.columns)
    unscored = [name for item in answers.values() for name in item.front.unscored if name in finished]
    return paragraphs(
        "page.notices",
        problems=list(answers),
        ended=len(table.own.trials),
        planned=sweep.planned_trials,
        running=len(table.running),
        unscored=list(dict.fromkeys(unscored)) if sweep.objectives else [],
        # A note that starts with the name of a source must not be capitalized.
        notes=[
            note_text(note) if note.source in names else sentence(note_text(note))
            for note in dict.fromkeys([*notes, *outside])
        ],
        study_notes=list(map(note_text, dict.fromkeys(study.notes if study else ()))),
    )
