"""report.html and everything beside it: from a sweep's tables to pareto.json, the figure and the page."""

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

from analysis.figures.draw_pareto import draw_pareto
from analysis.figures.gallery import gallery
from analysis.figures.inline_svg import inline_svg
from analysis.figures.pareto import ParetoData, pareto_data, score_objectives, scores_data, sweep_title
from analysis.figures.style import NARROW, save_figure, svg_text
from analysis.frontier.frontier import Frontier, frontier
from analysis.frontier.indicators import further_objectives
from analysis.frontier.model_choice import ModelChoice, choose_model
from analysis.frontier.pareto_json import pareto_content, plain
from analysis.report.answer import Answer, answer
from analysis.report.findings import Finding, PageFigure, findings
from analysis.report.outcomes import cost, ended_as, failures, stopped_early
from analysis.report.trials import anchors, charts, page_data, point_labels, trials_section
from analysis.study.lr_study import LrStudy, study_in
from analysis.study.study_headline import study_cautions, study_headline
from analysis.tables.columns import Columns, short
from analysis.tables.out_of_bounds import values_outside
from analysis.tables.problems import Problem, by_problem, file_stem
from analysis.tables.sources import Sources, read_source, read_sources
from analysis.tables.trial_table import STATUSES
from analysis.words import counted, number
from search_spaces.durable import write_json, write_whole


def write_report(out: Path, sources: Sequence[Path] = ()) -> None:
    """Write pareto.json, pareto.png, pareto.svg, figures/ and report.html into ``out``, from the tables in it.

    Also while the sweep runs: then they hold the trials that have ended so far. Before the target is made there is
    nothing to draw, and the page says so. Each file is replaced whole. With ``sources`` (sweeps' folders, runs'
    folders, CSV tables) the report is on all of them together and ``out`` need not be a sweep.

    Raises:
        AnalysisError: a table or sweep.json cannot be read; nothing was written.
        OSError: the folder cannot be written.
    """
    read = read_sources(list(sources) or [out], out=out)
    parts, notes = by_problem(read)
    study = study_in(read)
    wanted = gallery(read, study, parts)
    fronts = {problem: frontier(part.table.models, part.sweep.objectives) for problem, part in parts.items()}
    boxes = {problem: _further_hypervolumes(part) for problem, part in parts.items()}
    choices = {problem: choose_model(part.table, part.sweep) for problem, part in parts.items()}
    answers = {
        problem: answer(part.table, part.sweep, fronts[problem], choices[problem]) for problem, part in parts.items()
    }
    content = _content(parts, fronts, answers, boxes)
    drawn = [(problem, *item) for problem, part in parts.items() for item in _frontiers(part, choices[problem])]
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for section, data, draw in wanted:
        document = save_figure(draw(data), out / "figures", data.name)
        svg = inline_svg(document, prefix=data.name.replace("_", "-"), description=f"{data.title}. {data.caption}")
        figures.append((section, PageFigure(data.name, data.caption, svg)))
    links = anchors(read.table)
    frontiers: dict[Problem, list[PageFrontier]] = {problem: [] for problem in parts}
    for problem, name, shown, heading, about in drawn:
        stem = file_stem(name, *problem.names) if len(parts) > 1 else name
        document = save_figure(draw_pareto(shown, links=links), out if stem == "pareto" else out / "figures", stem)
        pictures = {"wide": document, "narrow": svg_text(draw_pareto(shown, size=NARROW, links=links))}
        description = f"The attained frontier of {shown.title}. {shown.subtitle}."
        labels = point_labels(parts[problem].table, read.sweep.objectives)
        svgs = (
            inline_svg(picture, prefix=f"{stem.replace('_', '-')}-{width}", description=description, labels=labels)
            for width, picture in pictures.items()
        )
        frontiers[problem].append(PageFrontier(heading, about, *svgs))
    page_answers = [
        PageAnswer(
            sweep_title(part.table, part.sweep) + (f" ({problem.apart})" if problem.apart else ""),
            f"-{i}" if len(parts) > 1 else "",
            answers[problem],
            fronts[problem],
            frontiers[problem],
            boxes[problem],
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

    ``columns`` says what its columns are.

    Raises:
        AnalysisError: the run's files cannot be read.
        OSError: the folder cannot be written.
    """
    folder = (out or run) / "figures"
    items = gallery(read_source(run, columns))
    for _, data, draw in items:
        save_figure(draw(data), folder, data.name)
    return [folder / f"{data.name}.png" for _, data, _ in items]


@dataclass(frozen=True, slots=True)
class PageFrontier:
    """A drawn frontier: what to say of it if it is not the sweep's own, its ``<svg>`` for either width of screen."""

    heading: str
    about: str
    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer of one problem; ``anchor`` ends its ids, "" where it is the only one."""

    title: str
    anchor: str
    answer: Answer
    front: Frontier
    frontiers: Sequence[PageFrontier]
    boxes: Mapping[str, float]


def _further_hypervolumes(part: Sources) -> dict[str, float]:
    """What the models dominate in other boxes than that of the objectives, by the box's name."""
    models = part.table.models
    boxes = further_objectives(part.sweep.objectives, part.sweep.columns, models.measured(part.sweep.columns.metrics))
    return {name: frontier(models, box).hypervolume for name, box in boxes.items()}


def _is_study(sources: Sources) -> bool:
    """Whether every sweep was run to judge AutoLR: then its verdict is the page's answer."""
    return bool(sources.sweeps) and all(sweep.settings.get("kind") == "lr-study" for sweep in sources.sweeps)


def _page(
    sources: Sources,
    answers: Sequence[PageAnswer],
    sections: Sequence[Finding],
    notices: Sequence[str],
    *,
    verdict: Sequence[str],
    is_judged: bool,
) -> str:
    """One HTML document that loads nothing and runs no script but its own.

    A study's ``verdict`` begins with its headline; ``is_judged`` says whether there is one to rest on a section.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("analysis.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["markup"] = Markup
    templates = resources.files("analysis.report").joinpath("templates")
    script, style, bibtex = (
        templates.joinpath(name).read_text("utf-8") for name in ("report.js", "report.css", "cited.bib")
    )
    # Nothing is loaded from anywhere, and the only script that runs is the page's own, named by its hash.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    table, sweep = sources.table, sources.sweep
    on_front = {trial_id for item in answers for trial_id in item.front.trial_ids}
    several = f"{len(answers)} problems, each with its own answer"
    return environment.get_template("report.html.j2").render(
        title=sweep_title(table, sweep),
        headline=verdict[0] if verdict else (several if len(answers) > 1 else answers[0].answer.headline),
        cautions=verdict[1:],
        is_study=bool(verdict),
        is_judged=is_judged,
        policy=f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'",
        script=Markup(script),
        style=Markup(style),
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
        stopped_early=stopped_early(table),
        sweeps=sources.sweeps,
        seeds=sorted({number(plain(seed)) for seed in table.trials["seed"] if plain(seed) is not None}),
        settings=[json.dumps(plain(dict(item.settings)), indent=2) for item in sources.sweeps],
        bibtex=bibtex.strip(),
        written=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        number=number,
        data={
            "trials": page_data(table),
            "baseline": dict(sweep.baseline),
            "guess": sweep.random_guess_loss,
            "charts": [asdict(chart) for chart in charts(table)],
        },
    )


def _frontiers(sources: Sources, choice: ModelChoice) -> Iterator[tuple[str, ParetoData, str, str]]:
    """The frontiers over the objectives and over the primary scores: stem of the files, data, heading, what to say."""
    table, sweep = sources.table, sources.sweep
    if len(sweep.objectives) < 2:
        return
    yield "pareto", pareto_data(table, sweep, choice), "", ""
    scores = scores_data(table, sweep, choice)
    if scores is not None:
        pair = [item.column for item in score_objectives(table, sweep)]
        units = {table.columns[name].unit for name in pair}
        # "ROUGE-L recall" of both is ROUGE; without a common unit the scores' own names stand there.
        kind = units.pop().partition("-")[0] if len(units) == 1 else ""
        labels = " against ".join(table.columns.label(name) for name in pair)
        heading = f"Over {kind or ' and '.join(map(short, pair))}"
        name = file_stem("pareto", kind.lower() or "scores")
        yield name, scores, heading, f"{labels[:1].upper()}{labels[1:]}."


def _content(
    parts: Mapping[Problem, Sources],
    fronts: Mapping[Problem, Frontier],
    answers: Mapping[Problem, Answer],
    boxes: Mapping[Problem, Mapping[str, float]],
) -> dict[str, object]:
    """The content of pareto.json: of several places all fronts one after the other, and each in ``places``."""
    contents = {
        problem: pareto_content(fronts[problem], part.table, part.sweep)
        | {"further_hypervolumes": dict(boxes[problem]), "answer": answers[problem].to_dict()}
        for problem, part in parts.items()
    }
    first = next(iter(contents.values()))
    if len(parts) == 1:
        return first
    every = [member for content in contents.values() for member in cast("list[object]", content["front"])]
    each = [problem._asdict() | content for problem, content in contents.items()]
    # Trials of different problems share no box: there is no volume of all of them, nor one model before unlearning.
    return first | {"hypervolume": None, "baseline": None, "answer": None, "front": every, "places": each}


def _notices(
    sources: Sources, notes: Sequence[str], fronts: Mapping[Problem, Frontier], study: LrStudy | None
) -> list[str]:
    """What keeps this page from being the whole and final story."""
    table, sweep = sources.table, sources.sweep
    said = []
    if len(fronts) > 1:
        said.append(
            f"This report is on {len(fronts)} problems: {'; '.join(map(str, fronts))}. Each has its own answer and "
            "frontier, as a loss or a score on one says nothing about another."
        )
    ended, planned = len(table.own.trials), sweep.planned_trials
    if planned is not None and ended < planned:
        under_way = f", {len(table.running)} more have begun" if table.running else ""
        said.append(f"Not complete: {ended} of {counted(planned, 'trial')} have ended{under_way}.")
    finished = set(table.finished["trial_id"])
    unscored = [
        name for name in dict.fromkeys(name for front in fronts.values() for name in front.unscored) if name in finished
    ]
    if unscored and sweep.objectives:
        said.append(f"Finished without a value of every objective, so not on the frontier: {', '.join(unscored)}.")
    notes = [*notes, *values_outside(table.trials, sweep.columns)]
    of_study = [f"in the learning-rate study, {note}" for note in (study.notes if study else ())]
    names = set(table.trials["sweep"])
    for note in dict.fromkeys([*notes, *of_study]):
        # A note on one source begins with its name, as it is written.
        said.append(f"{note if note.partition(':')[0] in names else note[0].upper() + note[1:]}.")
    return said
