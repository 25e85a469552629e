"""report.html and the files beside it, from a sweep's tables: pareto.json, the frontier, figures/ and the page."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import cast

from analysis.figures.gallery import gallery
from analysis.figures.inline_svg import inline_svg
from analysis.figures.pareto import ParetoData, pareto_data, score_objectives, scores_data, sweep_title
from analysis.figures.style import NARROW, save_figure, svg_text
from analysis.frontier.frontier import Frontier, frontier
from analysis.frontier.indicators import further_objectives
from analysis.frontier.judgement import ModelChoice, choose_model
from analysis.frontier.pareto_json import pareto_content, plain
from analysis.report.answer import Answer, answer
from analysis.report.example_answers import ExampleAnswers, example_answers
from analysis.report.figures import caption, draw_frontier
from analysis.report.findings import Finding, PageFigure, findings
from analysis.report.outcomes import cost, early_stops, ended_as, failures
from analysis.report.render import note_text, paragraphs, render, say, sentence
from analysis.report.study import study_cautions, study_headline
from analysis.report.trials import anchors, charts, page_data, point_labels, trials_section
from analysis.study.lr_study import LrStudy, study_in
from analysis.tables.columns import Columns
from analysis.tables.note import Note
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.problems import Problem, by_problem, file_stem
from analysis.tables.sources import Sources, read_source, read_sources
from analysis.tables.trial_table import STATUSES
from analysis.words import number
from search_spaces.durable import write_json, write_whole


@dataclass(frozen=True, slots=True)
class Scores:
    """The axes of a frontier over two scores; ``kind`` is what both are, such as ROUGE, or ""."""

    kind: str
    columns: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageFrontier:
    """A drawn frontier as ``<svg>`` for wide and narrow screens; ``scores`` if it is not over the objectives.

    ``name`` is the stem of its files.
    """

    scores: Scores | None
    name: str
    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer of one problem; ``anchor`` ends its ids, "" if it is the only one.

    ``hypervolumes`` are those in further boxes, by the box's name.
    """

    title: str
    anchor: str
    answer: Answer
    examples: ExampleAnswers | None
    front: Frontier
    frontiers: Sequence[PageFrontier]
    hypervolumes: Mapping[str, float]


def write_report(out: Path, sources: Sequence[Path] = ()) -> None:
    """Write pareto.json, pareto.png, pareto.svg, figures/ and report.html into ``out``, from the tables in it.

    While the sweep runs they hold the trials that have ended so far. Each file is replaced whole. With ``sources``
    (sweeps' folders, runs' folders, CSV tables) the report is about all of them and ``out`` need not be a sweep.

    Raises:
        AnalysisError: a table or sweep.json cannot be read; nothing was written.
        OSError: the folder cannot be written.
    """
    read = read_sources(list(sources) or [out], out=out)
    parts, notes = by_problem(read)
    study = study_in(read)
    wanted = gallery(read, study, parts)
    fronts = {problem: frontier(part.table.models, part.sweep.objectives) for problem, part in parts.items()}
    hypervolumes = {problem: _further_hypervolumes(part) for problem, part in parts.items()}
    choices = {problem: choose_model(part.table, part.sweep) for problem, part in parts.items()}
    answers = {
        problem: answer(part.table, part.sweep, fronts[problem], choices[problem]) for problem, part in parts.items()
    }
    examples = {problem: _examples(out, answers[problem], choices[problem]) for problem in parts}
    content = _content(parts, fronts, answers, hypervolumes)
    drawn = {problem: list(_frontiers(part, choices[problem])) for problem, part in parts.items()}
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for section, data, draw in wanted:
        document = save_figure(draw(data), out / "figures", data.name)
        text = caption(data.caption)
        svg = inline_svg(document, prefix=data.name.replace("_", "-"), description=f"{data.title}. {text}")
        figures.append((section, PageFigure(data.name, text, svg)))
    page_answers = [
        PageAnswer(
            title=sweep_title(part.table, part.sweep) + (f" ({problem.apart})" if problem.apart else ""),
            anchor=f"-{i}" if len(parts) > 1 else "",
            answer=answers[problem],
            examples=examples[problem],
            front=fronts[problem],
            frontiers=[
                _page_frontier(
                    out, file_stem(name, *problem.names) if len(parts) > 1 else name, scores, data, part, read
                )
                for name, data, scores in drawn[problem]
            ],
            hypervolumes=hypervolumes[problem],
        )
        for i, (problem, part) in enumerate(parts.items())
    ]
    page = _page(
        read,
        page_answers,
        list(findings(read, parts, figures, study)),
        _notices(read, notes, fronts, study),
        verdict=[study_headline(study), *study_cautions(study)] if study and _is_study(read) else [],
        is_judged=study is not None and bool(study.verdicts),
    )
    write_json(out / "pareto.json", plain(content))
    write_whole(out / "report.html", page)


def write_run_figures(run: Path, columns: Columns, out: Path | None = None) -> list[Path]:
    """Draw a single run's figures (its landscape, its AutoLR log, its course) into ``figures`` of ``out`` or the run.

    ``columns`` describes the run's columns.

    Raises:
        AnalysisError: the run's files cannot be read.
        OSError: the folder cannot be written.
    """
    folder = (out or run) / "figures"
    items = gallery(read_source(run, columns))
    for _, data, draw in items:
        save_figure(draw(data), folder, data.name)
    return [folder / f"{data.name}.png" for _, data, _ in items]


def _further_hypervolumes(part: Sources) -> dict[str, float]:
    """Return what the models dominate in other boxes than that of the objectives, by the box's name."""
    models = part.table.models
    boxes = further_objectives(part.sweep.objectives, part.sweep.columns, models.measured(part.sweep.columns.metrics))
    return {name: frontier(models, box).hypervolume for name, box in boxes.items()}


def _is_study(sources: Sources) -> bool:
    """Whether every sweep is a learning-rate study: then its verdict is the page's answer."""
    return bool(sources.sweeps) and all(sweep.settings.get("kind") == "lr-study" for sweep in sources.sweeps)


def _examples(out: Path, answer: Answer, choice: ModelChoice) -> ExampleAnswers | None:
    if answer.model is None or choice.row is None or not answer.model.checkpoint:
        return None
    return example_answers(out, answer.model.checkpoint, str(choice.row.get("target_key", "")))


def _frontiers(sources: Sources, choice: ModelChoice) -> Iterator[tuple[str, ParetoData, Scores | None]]:
    """Yield the frontiers over the objectives and over the primary scores: the files' stem, the data, the scores."""
    table, sweep = sources.table, sources.sweep
    if len(sweep.objectives) < 2:
        return
    yield "pareto", pareto_data(table, sweep, choice), None
    if (data := scores_data(table, sweep, choice)) is not None:
        columns = [item.column for item in score_objectives(table, sweep)]
        units = {table.columns[name].unit for name in columns}
        # "ROUGE-L recall" of both is ROUGE; scores without a common unit are named themselves.
        kind = units.pop().partition("-")[0] if len(units) == 1 else ""
        labels = tuple(map(table.columns.label, columns))
        yield file_stem("pareto", kind.lower() or "scores"), data, Scores(kind, tuple(columns), labels)


def _stem(name: str, problem: Problem, parts: Mapping[Problem, Sources]) -> str:
    return file_stem(name, *problem.names) if len(parts) > 1 else name


def _page_frontier(
    out: Path, stem: str, scores: Scores | None, data: ParetoData, part: Sources, read: Sources
) -> PageFrontier:
    """Draw a frontier into its files, and for the page."""
    links = anchors(read.table)
    document = save_figure(draw_frontier(data, links=links), out if stem == "pareto" else out / "figures", stem)
    pictures = {"wide": document, "narrow": svg_text(draw_frontier(data, size=NARROW, links=links))}
    description, labels = say("page.frontier", data=data), point_labels(part.table, read.sweep.objectives)
    prefix = stem.replace("_", "-")
    svgs = {
        width: inline_svg(picture, prefix=f"{prefix}-{width}", description=description, labels=labels)
        for width, picture in pictures.items()
    }
    return PageFrontier(scores, stem, **svgs)


def _page(
    sources: Sources,
    answers: Sequence[PageAnswer],
    sections: Sequence[Finding],
    notices: Sequence[str],
    *,
    verdict: Sequence[str],
    is_judged: bool,
) -> str:
    """Return one HTML document that loads nothing and runs no script but its own.

    ``verdict`` is a study's headline and cautions; ``is_judged`` says whether a section has what it rests on.
    """
    templates = resources.files("analysis.report").joinpath("templates")
    script, style, bibtex = (
        templates.joinpath(name).read_text("utf-8") for name in ("report.js", "report.css", "cited.bib")
    )
    # The policy names the only script that may run by its hash.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    table, sweep = sources.table, sources.sweep
    on_front = {trial_id for item in answers for trial_id in item.front.trial_ids}
    several = say("page.headline", problems=len(answers)) if len(answers) > 1 else ""
    return render(
        "report.html.j2",
        title=sweep_title(table, sweep),
        headline=verdict[0] if verdict else several or answers[0].answer.headline,
        cautions=verdict[1:],
        is_study=bool(verdict),
        is_judged=is_judged,
        digest=digest,
        script=script,
        style=style,
        answers=answers,
        findings=sections,
        notices=notices,
        anchors=anchors(table),
        every_epoch=table.every_epoch,
        trials=trials_section(table, sweep.objectives, on_front),
        statuses=[status for status in STATUSES if (table.trials["status"] == status).any()],
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
            "charts": [asdict(chart) for chart in charts(table)],
        },
    )


def _content(
    parts: Mapping[Problem, Sources],
    fronts: Mapping[Problem, Frontier],
    answers: Mapping[Problem, Answer],
    hypervolumes: Mapping[Problem, Mapping[str, float]],
) -> dict[str, object]:
    """Return the content of pareto.json; of several problems all fronts in a row, and each problem in ``places``."""
    contents = {
        problem: pareto_content(fronts[problem], part.table, part.sweep)
        | {"further_hypervolumes": dict(hypervolumes[problem]), "answer": answers[problem].to_dict()}
        for problem, part in parts.items()
    }
    first = next(iter(contents.values()))
    if len(parts) == 1:
        return first
    every = [member for content in contents.values() for member in cast("list[object]", content["front"])]
    each = [problem._asdict() | content for problem, content in contents.items()]
    # Different problems share neither a box nor a target.
    return first | {"hypervolume": None, "baseline": None, "answer": None, "front": every, "places": each}


def _notices(
    sources: Sources, notes: Sequence[Note], fronts: Mapping[Problem, Frontier], study: LrStudy | None
) -> tuple[str, ...]:
    """Return what is incomplete or left out."""
    table, sweep = sources.table, sources.sweep
    finished, names = set(table.finished["trial_id"]), set(table.trials["sweep"])
    outside = values_outside(table.trials, sweep.columns)
    unscored = [name for front in fronts.values() for name in front.unscored if name in finished]
    return paragraphs(
        "page.notices",
        problems=list(fronts),
        ended=len(table.own.trials),
        planned=sweep.planned_trials,
        running=len(table.running),
        unscored=list(dict.fromkeys(unscored)) if sweep.objectives else [],
        # The name of a source stays as it is written.
        notes=[
            note_text(note) if note.source in names else sentence(note_text(note))
            for note in dict.fromkeys([*notes, *outside])
        ],
        study_notes=list(map(note_text, dict.fromkeys(study.notes if study else ()))),
    )
