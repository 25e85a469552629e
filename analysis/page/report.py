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
from analysis.figures.selection import shown_metrics
from analysis.figures.style import NARROW, save_figure
from analysis.frontier.frontier import Frontier, frontier
from analysis.frontier.pareto_json import pareto_content, plain
from analysis.page.answer import Answer, answer
from analysis.page.findings import PageFigure, findings
from analysis.page.outcomes import cost, failures
from analysis.page.trials import anchors, charts, page_data, trials_section
from analysis.study.lr_study import LrStudy, study_in
from analysis.tables.columns import Columns, short
from analysis.tables.problems import Problem, ReportParts, by_problem, file_stem
from analysis.tables.sources import Sources, read_source, read_sources
from analysis.tables.trial_table import STATUSES
from analysis.words import counted, number
from search_spaces.durable import write_json, write_whole

BIBTEX = """\
@inproceedings{jin-etal-2025-unlearning,
  title     = {Unlearning as multi-task optimization: A normalized gradient difference approach
               with an adaptive learning rate},
  author    = {Jin, Xiaomeng and Bu, Zhiqi and Vinzamuri, Bhanukiran and Ramakrishna, Anil and
               Chang, Kai-Wei and Cevher, Volkan and Hong, Mingyi},
  booktitle = {Proceedings of the 2025 Conference of the Nations of the Americas Chapter of the Association
               for Computational Linguistics: Human Language Technologies (Volume 1: Long Papers)},
  year      = {2025},
  pages     = {11278--11294},
  doi       = {10.18653/v1/2025.naacl-long.563},
  note      = {arXiv:2410.22086},
}
@article{bu-xu-2024-gen,
  title   = {Gradient descent with generalized Newton's method},
  author  = {Bu, Zhiqi and Xu, Shiyun},
  year    = {2024},
  journal = {arXiv preprint arXiv:2407.02772},
}"""


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
    found = by_problem(read)
    study = study_in(read)
    wanted = gallery(read, study, found.parts)
    fronts = {problem: frontier(part.table, part.sweep.objectives) for problem, part in found.parts.items()}
    content = _content(found, fronts)
    drawn = [(problem, item) for problem, part in found.parts.items() for item in _frontiers(part)]
    out.mkdir(parents=True, exist_ok=True)
    figures = []
    for figure in wanted:
        data = figure.data
        document = save_figure(figure.draw(data), out / "figures", data.name)
        svg = inline_svg(document, prefix=data.name.replace("_", "-"), description=f"{data.title}. {data.caption}")
        figures.append((figure.section, PageFigure(data.name, data.caption, svg)))
    links = {trial_id: f"#{anchor}" for trial_id, anchor in anchors(read.table).items()}
    frontiers: dict[Problem, list[PageFrontier]] = {problem: [] for problem in found.parts}
    for problem, item in drawn:
        stem = file_stem(item.name, *problem) if found.several else item.name
        folder = out if stem == "pareto" else out / "figures"
        document = save_figure(draw_pareto(item.data, links=links), folder, stem)
        frontiers[problem].append(_page_frontier(item, stem, document, links))
    page = render_report(read, found, fronts, frontiers, figures, study)
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
    for item in items:
        save_figure(item.draw(item.data), folder, item.data.name)
    return [folder / f"{item.data.name}.png" for item in items]


@dataclass(frozen=True, slots=True)
class DrawnFrontier:
    """A frontier to draw: the stem of its files, its content, and, if it is not the sweep's own, what to say of it."""

    name: str
    data: ParetoData
    heading: str = ""
    about: str = ""


@dataclass(frozen=True, slots=True)
class PageFrontier:
    """A drawn frontier: the stem of its files, and its ``<svg>`` for wide and for narrow screens."""

    name: str
    heading: str
    about: str
    wide: str
    narrow: str


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The answer of one model and data set; ``anchor`` ends its ids, "" where it is the only one."""

    title: str
    anchor: str
    answer: Answer
    front: Frontier
    frontiers: Sequence[PageFrontier]


def render_report(
    sources: Sources,
    found: ReportParts,
    fronts: Mapping[Problem, Frontier],
    frontiers: Mapping[Problem, Sequence[PageFrontier]],
    figures: Sequence[tuple[str, PageFigure]] = (),
    study: LrStudy | None = None,
) -> str:
    """The page: one HTML document that loads nothing and runs no script but its own.

    ``fronts`` and ``frontiers`` are those of each part of ``found``; ``figures`` are those beyond the frontier, each
    with the anchor of the section it belongs to.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("analysis.page"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["markup"] = Markup
    script, style = (
        resources.files("analysis.page").joinpath("templates", name).read_text("utf-8") for name in _ASSETS
    )
    table, sweep = sources.table, sources.sweep
    now = datetime.datetime.now(datetime.UTC)
    seeds = sorted({number(plain(seed)) for seed in table.trials["seed"] if plain(seed) is not None})
    answers = [
        PageAnswer(
            sweep_title(part.table, part.sweep),
            f"-{i}" if found.several else "",
            answer(part.table, part.sweep, fronts[problem]),
            fronts[problem],
            frontiers.get(problem, ()),
        )
        for i, (problem, part) in enumerate(found.parts.items())
    ]
    objectives = [objective.column for objective in sweep.objectives]
    on_front = {trial_id for front in fronts.values() for trial_id in front.trial_ids}
    return environment.get_template("report.html.j2").render(
        title=sweep_title(table, sweep),
        headline=f"{len(answers)} problems, each with its own answer" if found.several else answers[0].answer.headline,
        policy=_policy(script),
        script=Markup(script),
        style=Markup(style),
        answers=answers,
        findings=list(findings(sources, figures, study)),
        notices=_notices(sources, found, fronts, study),
        anchors=anchors(table),
        trials=trials_section(table, sweep.objectives, on_front),
        statuses=[status for status in STATUSES if (table.trials["status"] == status).any()],
        failures=failures(table),
        cost=cost(table),
        sweeps=sources.sweeps,
        seeds=seeds,
        settings=[json.dumps(plain(dict(item.settings)), indent=2) for item in sources.sweeps],
        bibtex=BIBTEX,
        written=f"{now:%Y-%m-%d %H:%M} UTC",
        number=number,
        data={
            "trials": page_data(table),
            "baseline": dict(sweep.baseline),
            "guess": sweep.random_guess_loss,
            "charts": [asdict(chart) for chart in charts(table)],
            "told": [short(name) for name in dict.fromkeys((*objectives, *shown_metrics(table)))],
        },
    )


_ASSETS = ("report.js", "report.css")


def _frontiers(sources: Sources) -> Iterator[DrawnFrontier]:
    """The frontier over the objectives and over the primary scores, as far as there are data."""
    table, sweep = sources.table, sources.sweep
    if len(sweep.objectives) < 2:
        return
    yield DrawnFrontier("pareto", pareto_data(table, sweep))
    scores = scores_data(table, sweep)
    if scores is not None:
        pair = [item.column for item in score_objectives(table, sweep)]
        units = {table.columns[name].unit for name in pair}
        # "ROUGE-L recall" of both is ROUGE; without a common unit the scores' own names stand there.
        kind = units.pop().partition("-")[0] if len(units) == 1 else ""
        labels = " against ".join(table.columns.label(name) for name in pair)
        heading = f"Over {kind or ' and '.join(map(short, pair))}"
        name = file_stem("pareto", kind.lower() or "scores")
        yield DrawnFrontier(name, scores, heading, f"{labels[:1].upper()}{labels[1:]}.")


def _page_frontier(item: DrawnFrontier, stem: str, document: str, links: Mapping[str, str]) -> PageFrontier:
    """The frontier whose wide SVG is ``document``, and drawn once more for narrow screens."""
    prefix = stem.replace("_", "-")
    description = f"The attained frontier of {item.data.title}. {item.data.subtitle}."
    narrow = draw_pareto(item.data, size=NARROW, links=links)
    return PageFrontier(
        stem,
        item.heading,
        item.about,
        wide=inline_svg(document, prefix=f"{prefix}-wide", description=description),
        narrow=inline_svg(narrow, prefix=f"{prefix}-narrow", description=description),
    )


def _policy(script: str) -> str:
    """Nothing is loaded from anywhere, and the only script that runs is the page's own, named by its hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"


def _content(found: ReportParts, fronts: Mapping[Problem, Frontier]) -> dict[str, object]:
    """The content of pareto.json: of several places all fronts one after the other, and each in ``places``."""
    contents = {
        problem: pareto_content(fronts[problem], part.table, part.sweep) for problem, part in found.parts.items()
    }
    first = next(iter(contents.values()))
    if not found.several:
        return first
    every = [member for content in contents.values() for member in cast("list[object]", content["front"])]
    each = [problem._asdict() | content for problem, content in contents.items()]
    # Trials of different problems share no box: there is no volume of all of them, nor one model before unlearning.
    return first | {"hypervolume": None, "baseline": None, "front": every, "places": each}


def _notices(
    sources: Sources, found: ReportParts, fronts: Mapping[Problem, Frontier], study: LrStudy | None
) -> list[str]:
    """What keeps this page from being the whole and final story."""
    table, sweep = sources.table, sources.sweep
    said = []
    if found.several:
        said.append(
            f"This report is on {len(found.parts)} models or data sets. Each has its own answer and frontier, as a "
            "loss or a score on one says nothing about another."
        )
    ended, planned = len(table.own.trials), sweep.planned_trials
    if planned is not None and ended < planned:
        under_way = f", {len(table.running)} more have begun" if table.running else ""
        said.append(f"Not complete: {ended} of {counted(planned, 'trial')} have ended{under_way}.")
    unscored = dict.fromkeys(trial_id for front in fronts.values() for trial_id in front.unscored)
    if unscored and sweep.objectives:
        said.append(f"Finished without a value of every objective, so not on the frontier: {', '.join(unscored)}.")
    of_study = [f"in the learning-rate study, {note}" for note in (study.notes if study else ())]
    names = set(table.trials["sweep"])
    for note in dict.fromkeys([*found.notes, *of_study]):
        # A note on one source begins with its name, as it is written.
        said.append(f"{note if note.partition(':')[0] in names else note[0].upper() + note[1:]}.")
    return said
