"""Write report.html, pareto.json and the figures of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from analysis.figures.gallery import gallery
from analysis.figures.panels import PanelFigure, draw_panels
from analysis.figures.pareto import pareto_figure, sweep_title
from analysis.figures.save import save_figure
from analysis.frontier.choice import choose_model, corrected_scores
from analysis.frontier.confirmation import fresh_results
from analysis.frontier.frontier import frontier
from analysis.frontier.indicators import further_objectives
from analysis.frontier.pareto_json import json_value, pareto_content
from analysis.report.answer import answer
from analysis.report.answers import answers_data
from analysis.report.candidates import Problem, candidates_data
from analysis.report.page import PageAnswer, PageFigure, page, page_notices, page_sections
from analysis.report.render import note_text, render_line, sentence
from analysis.report.trials import fresh_section
from analysis.study.lr_study import study_in
from analysis.tables.columns import Columns
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
        figures.append((section, PageFigure(data.name, data.title, text, document)))
    for task, source in sources_by_task.items():
        if len(source.sweep.objectives) > 1:
            figure = draw_frontier(pareto_figure(source.table, source.sweep, answers[task].choice))
            stem = "pareto" if len(answers) == 1 else file_stem("pareto", *task.names)
            save_figure(figure, folder if stem == "pareto" else folder / "figures", stem)
    problems = [Problem(item.title, sources_by_task[task], item.front, item.choice) for task, item in answers.items()]
    html = page(
        full,
        list(answers.values()),
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


def draw_frontier(data: PanelFigure) -> Figure:
    """Draw the frontier figure with its subtitle and notes."""
    subtitle = note_text(data.subtitle) if data.subtitle else ""
    notes = [f"{sentence(note_text(note))}." for note in data.notes]
    return draw_panels(data, subtitle=subtitle, notes=notes)


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
