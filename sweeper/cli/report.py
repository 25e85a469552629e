"""``report``: draw the figures and write the report anew, of one sweep or of several sources together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import click

from search_spaces.messages import no_sweep
from sweeper.cli import options
from sweeper.cli.errors import plain_errors, refuse


@click.command()
@click.argument("sources", type=click.Path(), nargs=-1, required=True, metavar="FOLDER|CSV...")
@click.option("--out", type=click.Path(), help="Where the report goes.  [default: a single source's own folder]")
@click.option("--watch", is_flag=True, help="Show it on a local page that follows the tables; Ctrl-C ends it.")
@click.option("--port", type=options.WHOLE, help="Of that page.  [default: a free one]")
@click.option("--json", "as_json", is_flag=True, help="Print the frontier, or a run's figures, as JSON on stdout.")
@plain_errors
def report(sources: tuple[str, ...], out: str | None, watch: bool, port: int | None, as_json: bool) -> None:
    """Write a report from the tables in the given folders, also while a sweep runs.

    A source is a sweep's folder, the folder of a single run, or a CSV with the columns method and the two objectives
    (forget_loss and retain_loss, or verbmem and utility; optional name, lr, c, seed, model, dataset). Several are one
    report, in --out. A run's folder alone gets the figures of the run. The folder of another sweep is never written to.
    """
    paths = [Path(source) for source in sources]
    refuse(_watch_problems(paths, watch=watch, port=port, as_json=as_json))
    _check(paths, out)
    from analysis.report.report import write_report, write_run_figures
    from analysis.tables.columns import Columns
    from sweeper.store.columns import column_dictionary

    if _is_run(paths[0]) and len(paths) == 1:
        columns = Columns.from_dict(column_dictionary(random_guess=None, unit="token"))
        figures = [str(path) for path in write_run_figures(paths[0], columns, Path(out) if out else None)]
        click.echo(json.dumps({"figures": figures}) if as_json else "\n".join(f"figure: {path}" for path in figures))
        return
    folder = Path(out) if out else paths[0]
    if watch:
        _watched(folder, paths, port=port or 0)
    write_report(folder, paths)
    if as_json:
        click.echo(json.dumps(json.loads((folder / "pareto.json").read_text(encoding="utf-8"))))
    else:
        click.echo(f"report: {folder / 'report.html'}")


def _watched(folder: Path, paths: list[Path], *, port: int) -> NoReturn:
    """Serve the report, made anew as its tables change, until a signal ends it."""
    import signal

    from analysis.report.report import write_report
    from sweeper.cli.page_server import keep_up, serving, stamp_of

    def make() -> None:
        write_report(folder, paths)

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    made = stamp_of(paths)
    make()
    with serving(folder / "report.html", port=port) as address:
        click.echo(f"report: {address} (on this machine only; it follows the tables, Ctrl-C ends it)")
        keep_up(paths, make, made=made, say=lambda text: click.echo(text, err=True))


def _watch_problems(paths: list[Path], *, watch: bool, port: int | None, as_json: bool) -> list[str]:
    problems = options.given_problems()
    if port is not None and not watch:
        problems.append("--port is of the page that --watch shows: give both")
    if port is not None and not 0 <= port < 1 << 16:
        problems.append(f"--port must be from 1 to 65535, got {port}")
    if watch and as_json:
        problems.append("--watch shows a page and --json prints once: give one of them")
    if watch and len(paths) == 1 and _is_run(paths[0]):
        problems.append(f"--watch: {paths[0]} is a single run, which has figures and no page")
    return problems


def _check(paths: list[Path], out: str | None) -> None:
    from sweeper.checks.specs import place_problems

    problems = []
    for path in paths:
        told = path.is_file() or (path / "sweep.json").is_file() or _is_run(path)
        if not told:
            problems.append(no_sweep(path))
    if out is not None:
        problems += place_problems(out)
        if (Path(out) / "sweep.json").is_file() and [path.resolve() for path in paths] != [Path(out).resolve()]:
            problems.append(f"--out {out}: it holds a sweep, whose own report would be lost; name another folder")
    elif len(paths) > 1:
        problems.append("a report of several sources needs --out FOLDER, the folder to write it to")
    if len({path.resolve() for path in paths}) < len(paths):
        problems.append("a source is given twice")
    sweeps = [path for path in paths if (path / "sweep.json").is_file()]
    if not sweeps and not problems and not (len(paths) == 1 and _is_run(paths[0])):
        problems.append("no sweep among the sources: one sweep's folder must say what the objectives are")
    refuse(problems)


def _is_run(path: Path) -> bool:
    """A folder that ``unlearn --out`` wrote."""
    return (path / "metrics.json").is_file() and not (path / "sweep.json").is_file()
