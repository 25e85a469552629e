"""Write report.html, pareto.json and the figures of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from analysis.figures.draw_pareto import draw_pareto
from analysis.figures.gallery import gallery
from analysis.figures.panels import draw_panels
from analysis.figures.pareto import ParetoData, pareto_data, score_objectives, sweep_title
from analysis.figures.svg import inline_svg, save_figure
from analysis.frontier.frontier import frontier
from analysis.frontier.indicators import further_objectives
from analysis.frontier.judgement import choose_model
from analysis.frontier.pareto_json import json_value, pareto_content
from analysis.report.answer import answer
from analysis.report.example_answers import example_answers
from analysis.report.page import PageAnswer, PageFigure, PageFrontier, page, page_notices, page_sections
from analysis.report.render import listed, note_text, render_line, sentence
from analysis.report.trials import anchors, point_labels
from analysis.study.lr_study import study_in
from analysis.tables.columns import Columns, short
from analysis.tables.note import Note
from analysis.tables.problems import Problem, by_problem, file_stem
from analysis.tables.sources import Sources, read_source, read_sources
from search_spaces.durable import write_atomically, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(out: Path, sources: Sequence[Path] = ()) -> None:
    """Write pareto.json, pareto.png, pareto.svg, figures/ and report.html to the folder ``out``.

    While a sweep runs, the files contain the trials that have ended. Each file is replaced atomically.

    Args:
        sources: sweep folders, run folders and CSV tables. By default, the only source is the sweep in ``out``.

    Raises:
        AnalysisError: a table or sweep.json cannot be read. No file has been written.
        OSError: a file cannot be written.
    """
    read = read_sources(list(sources) or [out], out=out)
    parts, notes = by_problem(read)
    study = study_in(read)
    # If all sweeps are learning-rate studies, the page starts with the verdicts.
    is_study = bool(read.sweeps) and all(sweep.settings.get("kind") == "lr-study" for sweep in read.sweeps)
    wanted = gallery(parts, study)
    answers = {
        problem: _page_answer(out, problem, part, anchor=f"-{i}" if len(parts) > 1 else "")
        for i, (problem, part) in enumerate(parts.items())
    }
    content = _content(parts, answers)
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for section, data in wanted:
        document = save_figure(draw_panels(data), out / "figures", data.name)
        facts = data.caption or Note("")
        text = render_line(f"figure_captions.{facts.code}", **dict(facts.facts)) if facts.code else ""
        text = f"{facts.source}. {text}" if facts.source else text
        svg = inline_svg(document, prefix=data.name.replace("_", "-"), description=f"{data.title}. {text}")
        figures.append((section, PageFigure(data.name, text, svg)))
    page_answers = [
        replace(item, frontiers=list(_draw_fronts(out, problem, parts[problem], read, item)))
        for problem, item in answers.items()
    ]
    html = page(
        read,
        page_answers,
        list(page_sections(read, figures, study)),
        page_notices(read, notes, answers, study),
        study=study if is_study else None,
    )
    write_json(out / "pareto.json", json_value(content))
    write_atomically(out / "report.html", html)


def write_run_figures(run: Path, columns: Columns, out: Path | None = None) -> list[Path]:
    """Draw the figures of a single run. Return the paths of the PNG files.

    ``out`` is the folder in which ``figures`` is created; by default, the run's folder.
    """
    folder = (out or run) / "figures"
    figures = [data for _, data in gallery(by_problem(read_source(run, columns))[0])]
    for data in figures:
        save_figure(draw_panels(data), folder, data.name)
    return [folder / f"{data.name}.png" for data in figures]


def draw_frontier(data: ParetoData, *, links: Mapping[str, str] | None = None) -> Figure:
    """Draw the frontier figure with its subtitle and notes. ``links`` maps trial ids to anchors of the page."""
    subtitle = note_text(data.subtitle).replace(" · ", "  \u00b7  ")
    notes = [f"{sentence(note_text(note))}." for note in data.notes]
    return draw_pareto(data, subtitle=subtitle, notes=notes, links=links or {})


def _page_answer(out: Path, problem: Problem, part: Sources, *, anchor: str) -> PageAnswer:
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


def _draw_fronts(out: Path, problem: Problem, part: Sources, read: Sources, item: PageAnswer) -> Iterator[PageFrontier]:
    table, sweep = part.table, part.sweep
    wanted: list[tuple[str, ParetoData, str, list[str]]] = []
    if len(sweep.objectives) > 1:
        wanted.append(("pareto", pareto_data(table, sweep, item.choice), "", []))
        if scores := score_objectives(table, sweep):
            units = {table.columns[score.column].unit for score in scores}
            # If both scores have the unit "ROUGE-L recall", the figure is named ROUGE. Otherwise, the name lists them.
            unit = units.pop().partition("-")[0] if len(units) == 1 else ""
            data = pareto_data(table, replace(sweep, objectives=scores), item.choice)
            kind = unit or listed(short(score.column) for score in scores)
            labels = [table.columns.label(score.column) for score in scores]
            wanted.append((file_stem("pareto", unit.lower() or "scores"), data, kind, labels))
    links, points = anchors(read.table), point_labels(table, read.sweep.objectives)
    for name, data, kind, axes in wanted:
        stem = file_stem(name, *problem.names) if item.anchor else name
        document = save_figure(draw_frontier(data, links=links), out if stem == "pareto" else out / "figures", stem)
        words = render_line("page.frontier", data=data)
        svg = inline_svg(document, prefix=stem.replace("_", "-"), description=words, labels=points)
        yield PageFrontier(svg, kind, axes)


def _content(parts: Mapping[Problem, Sources], answers: Mapping[Problem, PageAnswer]) -> dict[str, object]:
    """Return the content of pareto.json. If there are several problems, ``places`` has an entry for each problem."""
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
