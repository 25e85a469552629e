"""report.html and everything beside it: from a sweep's tables to pareto.json, the figure and the page."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from importlib import resources
from pathlib import Path

from analysis.figures.draw_pareto import draw_pareto, save_pareto
from analysis.figures.inline_svg import inline_svg
from analysis.figures.pareto import pareto_data, sweep_title
from analysis.figures.style import NARROW, WIDE
from analysis.files import write_whole
from analysis.frontier import Frontier, frontier
from analysis.pareto_json import pareto_content, plain, write_pareto_json
from analysis.sections.answer import answer
from analysis.sections.outcomes import cost, failures
from analysis.sections.trials import anchors, page_data, trials_section
from analysis.sweep_file import SweepFile
from analysis.table import STATUSES, TrialTable
from analysis.words import counted, number

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
}"""


def write_report(out: Path) -> None:
    """Write pareto.json, pareto.png, pareto.svg and report.html into a sweep's folder, from the tables in it.

    Also while the sweep runs: then they hold the trials that have ended so far. Before the target is made there is
    nothing to draw, and the page says so. Each file is replaced whole.

    Raises:
        AnalysisError: a table or sweep.json cannot be read; nothing was written.
        OSError: the folder cannot be written.
    """
    sweep = SweepFile.read(out)
    table = TrialTable.read(out, sweep=sweep.name)
    front = frontier(table, sweep.objectives)
    page = render_report(table, sweep, front)
    write_pareto_json(out / "pareto.json", pareto_content(front, table, sweep))
    if len(sweep.objectives) > 1:
        save_pareto(pareto_data(table, sweep), out)
    write_whole(out / "report.html", page)


def render_report(table: TrialTable, sweep: SweepFile, front: Frontier) -> str:
    """The page: one HTML document that loads nothing and runs no script but its own."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("analysis"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    script, style = (resources.files("analysis").joinpath("templates", name).read_text("utf-8") for name in _ASSETS)
    figures = _figures(table, sweep)
    now = datetime.datetime.now(datetime.UTC)
    return environment.get_template("report.html.j2").render(
        title=sweep_title(table, sweep),
        policy=_policy(script),
        script=Markup(script),
        style=Markup(style),
        wide_figure=Markup(figures[0]),
        narrow_figure=Markup(figures[1]),
        answer=answer(table, sweep, front),
        notices=_notices(table, sweep, front),
        objectives=front.objectives,
        hypervolume=front.hypervolume,
        anchors=anchors(table),
        trials=trials_section(table, front),
        statuses=[status for status in STATUSES if (table.trials["status"] == status).any()],
        failures=failures(table),
        cost=cost(table),
        sweep=sweep,
        settings=json.dumps(plain(dict(sweep.settings)), indent=2),
        bibtex=BIBTEX,
        written=f"{now:%Y-%m-%d %H:%M} UTC",
        number=number,
        data={"trials": page_data(table), "baseline": dict(sweep.baseline), "guess": sweep.random_guess_loss},
    )


_ASSETS = ("report.js", "report.css")


def _figures(table: TrialTable, sweep: SweepFile) -> tuple[str, str]:
    """The frontier for wide and for narrow screens; empty as long as there are no objectives."""
    if len(sweep.objectives) < 2:
        return "", ""
    data = pareto_data(table, sweep)
    links = {trial_id: f"#{anchor}" for trial_id, anchor in anchors(table).items()}
    description = f"The attained frontier of {data.title}. {data.subtitle}."
    wide, narrow = (
        inline_svg(draw_pareto(data, size=size, links=links), prefix=prefix, description=description)
        for prefix, size in (("wide", WIDE), ("narrow", NARROW))
    )
    return wide, narrow


def _policy(script: str) -> str:
    """Nothing is loaded from anywhere, and the only script that runs is the page's own, named by its hash."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"


def _notices(table: TrialTable, sweep: SweepFile, front: Frontier) -> list[str]:
    """What keeps this page from being the whole and final story."""
    found = []
    ended, planned = len(table.trials), sweep.planned_trials
    if planned is not None and ended < planned:
        under_way = f", {len(table.running)} more have begun" if table.running else ""
        found.append(f"Not complete: {ended} of {counted(planned, 'trial')} have ended{under_way}.")
    if front.unscored and sweep.objectives:
        ids = ", ".join(front.unscored)
        found.append(f"Finished without a value of every objective, so not on the frontier: {ids}.")
    return found + [f"{note[0].upper()}{note[1:]}." for note in table.notes]
