"""Write report.html, pareto.json and the figures of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from analysis.figures.draw_pareto import draw_pareto
from analysis.figures.gallery import gallery
from analysis.figures.panels import draw_panels
from analysis.figures.pareto import ParetoData, pareto_data, score_objectives, sweep_title
from analysis.figures.svg import inline_svg, save_figure
from analysis.frontier.choice import choose_model, corrected_scores
from analysis.frontier.confirmation import fresh_results
from analysis.frontier.frontier import frontier
from analysis.frontier.indicators import further_objectives
from analysis.frontier.pareto_json import json_value, pareto_content
from analysis.report.answer import answer
from analysis.report.answers import answers_data
from analysis.report.candidates import Problem, candidates_data
from analysis.report.page import PageAnswer, PageFigure, PageFrontier, page, page_notices, page_sections
from analysis.report.render import listed, note_text, render_line, sentence
from analysis.report.trials import anchors, fresh_section, point_labels
from analysis.study.lr_study import study_in
from analysis.tables.columns import Columns, short
from analysis.tables.note import Note
from analysis.tables.sources import Sources, read_source, read_sources, sweep_folders
from analysis.tables.sweep_file import SweepFile
from analysis.tables.tasks import Task, by_task, file_stem
from analysis.tables.trial_table import TrialTable
from search_spaces.common.durable import write_atomically, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_report(out: Path, sources: Sequence[Path] = (), *, into: Path | None = None) -> dict[str, Any]:
    """Write pareto.json, pareto.png, pareto.svg, figures/ and report.html to ``out``. Return pareto.json's content.

    While a sweep runs, the files contain the trials that have ended. Each file is replaced atomically.

    Args:
        sources: sweep folders, run folders and CSV tables. By default, the only source is the sweep in ``out``.
        into: the folder to which the files are written instead of ``out``. Checkpoint paths stay relative to ``out``.

    Raises:
        AnalysisError: a table or sweep.json cannot be read. No file has been written.
        OSError: a file cannot be written.
    """
    paths = list(dict.fromkeys(sources)) or [out]
    full = read_sources(paths, out=out)
    sources_by_task, notes = by_task(full)
    study = study_in(full)
    # If all sweeps are learning-rate studies, the page starts with the verdicts.
    is_study = bool(full.sweeps) and all(sweep.settings.get("kind") == "lr-study" for sweep in full.sweeps)
    gallery_figures = gallery(sources_by_task, study)
    answers = {
        task: _page_answer(task, source, anchor=f"-{i}" if len(sources_by_task) > 1 else "")
        for i, (task, source) in enumerate(sources_by_task.items())
    }
    content = cast("dict[str, Any]", json_value(_content(sources_by_task, answers)))
    folder = into or out
    folder.mkdir(parents=True, exist_ok=True)
    figures = []
    for section, data in gallery_figures:
        document = save_figure(draw_panels(data), folder / "figures", data.name)
        caption = data.caption or Note("")
        text = render_line(f"figure_captions.{caption.code}", **dict(caption.facts)) if caption.code else ""
        text = f"{caption.source}. {text}" if caption.source else text
        svg = inline_svg(document, prefix=data.name.replace("_", "-"), description=f"{data.title}. {text}")
        figures.append((section, PageFigure(data.name, text, svg)))
    page_answers = [
        replace(item, frontiers=list(_frontiers(folder, task, sources_by_task[task], full, item)))
        for task, item in answers.items()
    ]
    problems = [Problem(item.title, sources_by_task[task], item.front, item.choice) for task, item in answers.items()]
    html = page(
        full,
        page_answers,
        list(page_sections(full, figures, study)),
        page_notices(full, notes, answers, study),
        study=study if is_study else None,
        candidates=candidates_data(problems, sweep_folders(paths), prefixed=len(paths) > 1),
    )
    write_json(folder / "pareto.json", content)
    write_atomically(folder / "report.html", html)
    return content


def write_run_figures(run: Path, columns: Columns, out: Path | None = None) -> list[Path]:
    """Draw the figures of a single run. Return the paths of the PNG files.

    ``out`` is the folder in which ``figures`` is created; by default, the run's folder.
    """
    folder = (out or run) / "figures"
    figures = [data for _, data in gallery(by_task(read_source(run, columns))[0])]
    for data in figures:
        save_figure(draw_panels(data), folder, data.name)
    return [folder / f"{data.name}.png" for data in figures]


def draw_frontier(data: ParetoData, *, links: Mapping[str, str] | None = None) -> Figure:
    """Draw the frontier figure with its subtitle and notes. ``links`` maps trial ids to anchors of the page."""
    subtitle = note_text(data.subtitle).replace(" · ", "  \u00b7  ")
    notes = [f"{sentence(note_text(note))}." for note in data.notes]
    return draw_pareto(data, subtitle=subtitle, notes=notes, links=links or {})


def _page_answer(task: Task, source: Sources, *, anchor: str) -> PageAnswer:
    table, sweep = source.table, source.sweep
    front = frontier(table.models, sweep.objectives)
    choice = choose_model(table, sweep)
    sweep_answer = answer(table, sweep, front, choice, corrected_scores(choice, sweep.objectives))
    boxes = further_objectives(sweep.objectives, sweep.columns, table.models.measured(sweep.columns.metrics))
    return PageAnswer(
        title=sweep_title(table, sweep) + (f" ({task.apart})" if task.apart else ""),
        anchor=anchor,
        choice=choice,
        answer=sweep_answer,
        answers=answers_data(table, sweep, choice, front),
        front=front,
        fresh=fresh_section(table, choice.criterion),
        hypervolumes={name: frontier(table.models, box).hypervolume for name, box in boxes.items()},
    )


def _frontiers(out: Path, task: Task, source: Sources, full: Sources, item: PageAnswer) -> Iterator[PageFrontier]:
    table, sweep = source.table, source.sweep
    figures: list[tuple[str, ParetoData, str, list[str]]] = []
    if len(sweep.objectives) > 1:
        figures.append(("pareto", pareto_data(table, sweep, item.choice), "", []))
        if scores := score_objectives(table, sweep):
            units = {table.columns[score.column].unit for score in scores}
            # If both scores have the unit "ROUGE-L recall", the figure is named ROUGE. Otherwise, the name lists them.
            unit = units.pop().partition("-")[0] if len(units) == 1 else ""
            data = pareto_data(table, replace(sweep, objectives=scores), item.choice)
            kind = unit or listed(short(score.column) for score in scores)
            labels = [table.columns.label(score.column) for score in scores]
            figures.append((file_stem("pareto", unit.lower() or "scores"), data, kind, labels))
    links = anchors(full.table)
    points = point_labels(table, full.sweep.objectives, links)
    for name, data, kind, axis_labels in figures:
        stem = file_stem(name, *task.names) if item.anchor else name
        document = save_figure(draw_frontier(data, links=links), out if stem == "pareto" else out / "figures", stem)
        description = render_line("page.frontier", data=data)
        svg = inline_svg(document, prefix=stem.replace("_", "-"), description=description, labels=points)
        yield PageFrontier(svg, kind, axis_labels)


def _content(sources_by_task: Mapping[Task, Sources], answers: Mapping[Task, PageAnswer]) -> dict[str, object]:
    """Return the content of pareto.json. If there are several tasks, ``places`` has an entry for each task."""
    contents = {
        task: _task_content(sources_by_task[task].table, sources_by_task[task].sweep, item)
        for task, item in answers.items()
    }
    first = next(iter(contents.values()))
    if len(sources_by_task) == 1:
        return first
    all_members = [member for content in contents.values() for member in cast("list[object]", content["front"])]
    entries = [task._asdict() | content for task, content in contents.items()]
    # Different tasks do not share a reference box or a target.
    return first | {"hypervolume": None, "baseline": None, "answer": None, "front": all_members, "places": entries}


def _task_content(table: TrialTable, sweep: SweepFile, item: PageAnswer) -> dict[str, object]:
    content = pareto_content(item.front, table, sweep)
    content |= {"further_hypervolumes": dict(item.hypervolumes), "answer": item.answer.to_dict()}
    fresh = table.fresh[table.fresh["confirms"].isin(set(table.trials["trial_id"]))]
    fresh_runs = [asdict(model) for model in fresh_results(fresh, item.choice.criterion)]
    return content | {"fresh_runs": fresh_runs}
