"""The commands that show results: ``report``, ``compare`` and ``pick``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from search_spaces.common.messages import no_sweep
from search_spaces.common.values import json_text
from sweeper.cli.errors import interrupted_by_signals
from sweeper.cli.options import command, json_option
from sweeper.settings.options import CompareOptions, PickOptions, ReportOptions
from sweeper.settings.reading import about, located, read
from sweeper.settings.sources import Raw, raise_if_any

if TYPE_CHECKING:
    from sweeper.export.pick import Choice


@command(
    ReportOptions,
    click.argument("sources", type=click.Path(), nargs=-1, required=True, metavar="FOLDER|CSV..."),
    json_option("Print the frontier, or the paths of a single run's figures, as JSON on stdout."),
)
def report(raw: Raw, problems: list[str], *, sources: tuple[str, ...], as_json: bool) -> None:
    """Write a report on sweeps, single runs and result files, even while a sweep runs.

    A source is the folder of a sweep, the folder of a single run, a CSV file, or a file of open-unlearning or
    unlearning-depth-score (docs/analysis.md). A CSV file needs a column 'method' and
    the columns of two objectives: forget_loss and retain_loss, or verbmem and utility. The columns 'name', 'lr', 'c',
    'seed', 'model' and 'dataset' are optional. If several sources are given, one report on all of them is written to
    --out. If the only source is the folder of a single run, figures are drawn, but no report is written.
    """
    options, found = read(ReportOptions, raw, problems)
    out, watch = options.out, options.watch
    path_by_location = {Path(source).resolve(): Path(source) for source in sources}  # each source once
    paths = list(path_by_location.values())
    is_single_run = len(paths) == 1 and _is_run(paths[0])
    if "port" in raw and not watch:
        found += about(
            "port", "--port can be used only with --watch, because it is the port of the page that --watch serves"
        )
    if watch and as_json:
        found += about(
            "watch", "--watch serves a page until Ctrl-C, and --json prints one result: give only one of them"
        )
    if watch and is_single_run:
        found += about(
            "watch", f"--watch: {paths[0]} is a single run, which has figures but no page; leave out --watch"
        )
    raise_if_any(located(found, raw))
    _check_sources(paths, out)
    from analysis.report.report import write_report, write_run_figures
    from analysis.tables.columns import Columns
    from sweeper.store.columns import column_dictionary

    if is_single_run:
        columns = Columns.from_dict(column_dictionary(random_guess=None, unit="token"))
        figures = [str(path) for path in write_run_figures(paths[0], columns, Path(out) if out else None)]
        click.echo(json_text({"figures": figures}) if as_json else "\n".join(f"figure: {path}" for path in figures))
        return
    folder = Path(out) if out else paths[0]
    if watch:
        with interrupted_by_signals():
            _watch(folder, paths, writes=out is not None, port=options.port or 0)
    content = write_report(folder, paths)
    if as_json:
        click.echo(json_text(content))
    else:
        click.echo(f"report: {folder / 'report.html'}")


def _check_sources(paths: list[Path], out: str | None) -> None:
    from sweeper.checks.world import write_problems

    sweeps = [path for path in paths if (path / "sweep.json").is_file()]
    is_single_run = len(paths) == 1 and _is_run(paths[0])
    problems = [no_sweep(path) for path in paths if not (path.is_file() or path in sweeps or _is_run(path))]
    if out is not None:
        problems += write_problems(out)
        if (Path(out) / "sweep.json").is_file() and [path.resolve() for path in paths] != [Path(out).resolve()]:
            reason = "the folder holds a sweep, whose own report would be overwritten; name another folder"
            problems.append(f"--out {out}: {reason}")
    elif len(paths) > 1:
        problems.append("a report on several sources needs an output folder: give --out FOLDER")
    if not sweeps and not problems and not is_single_run:
        problems.append(
            "none of the sources is a sweep: give at least one sweep's folder, because a sweep defines the objectives"
        )
    raise_if_any(problems)


def _is_run(path: Path) -> bool:
    """Return whether the folder was written by ``unlearn --out``."""
    return (path / "metrics.json").is_file() and not (path / "sweep.json").is_file()


@command(
    CompareOptions,
    click.argument("sources", nargs=-1, type=click.Path()),
    json_option("Print the tables as JSON on stdout."),
)
def compare(raw: Raw, problems: list[str], *, sources: tuple[str, ...], as_json: bool) -> None:
    """Compare the methods in one or more sweep folders and CSV files, with and without AutoLR."""
    options, found = read(CompareOptions, raw)
    out = options.out
    if not sources:
        problems.append("name at least one sweep folder or CSV file to compare")
    problems += located(found, raw)
    for source in map(Path, sources):
        if not source.is_file() and not (source / "sweep.json").is_file():
            problems.append(no_sweep(source))
    if out is not None and Path(out).is_file():
        problems.append(f"--out {out}: this is a file, expected a folder")
    raise_if_any(problems)
    from analysis.comparison.comparison import comparison_data, comparison_sources
    from analysis.report.comparison_text import FORMATS as WRITERS
    from analysis.report.comparison_text import comparison_content
    from analysis.tables.columns import Columns
    from search_spaces.common.durable import write_atomically
    from sweeper.store.columns import column_dictionary

    columns = Columns.from_dict(column_dictionary(random_guess=None, unit="token"))
    paths = [Path(source) for source in dict.fromkeys(sources)]  # each source once
    tables = comparison_data(comparison_sources(paths, columns))
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        for suffix, write in WRITERS.items():
            write_atomically(Path(out) / f"comparison.{suffix}", write(tables))
    if as_json:
        click.echo(json_text(comparison_content(tables)))
    else:
        click.echo(WRITERS[options.format](tables), nl=False)


def _watch(folder: Path, paths: list[Path], *, writes: bool, port: int) -> NoReturn:
    """Serve the report until a signal arrives. Unless ``writes`` is true, no file in ``folder`` is written."""
    import tempfile

    from analysis.report.report import write_report
    from sweeper.cli.page_server import serving, table_stamps, watch

    with tempfile.TemporaryDirectory(prefix="sweeper-report-") as temporary:
        into = folder if writes else Path(temporary)
        stamps = table_stamps(paths)
        write_report(folder, paths, into=into)
        with serving(into / "report.html", port=port) as address:
            click.echo(f"report: {address} (only on this machine; updated when the tables change; stop with Ctrl-C)")
            watch(
                paths,
                lambda: write_report(folder, paths, into=into),
                stamps=stamps,
                say=lambda text: click.echo(text, err=True),
            )


@command(
    PickOptions, click.argument("folder", type=click.Path()), json_option("Print the chosen model as JSON on stdout.")
)
def pick(raw: Raw, problems: list[str], *, folder: str, as_json: bool) -> None:
    """Choose a checkpoint of the sweep in FOLDER, and report whether it meets the criterion of the sweep.

    Candidates are the last epochs of finished trials and all epochs on the frontier. A candidate does not meet a limit
    (such as --where 'verbmem<=0.1') if the limited metric was not measured. If neither a rule nor a limit nor a column
    (--maximize or --minimize) is given, 'pick' chooses the same model as the report. The criterion is --criterion of
    the sweep, with its --constraint options. See docs/choosing.md. The rules are:

    \b
    knee        the model nearest to the ideal corner (the best value of every objective), with all
                objectives scaled to [0, 1]
    constraint  of the models within the limits, the model with the best utility
    success     of the models that meet the criterion, the model with the best utility
    budget      of the models within the limits, the model that forgets most; the default limit is
                retain_kl<=0.01, so that methods are compared at the same damage

    --trial chooses the model that you name, such as a point of the report's figure.

    \b
    python -m sweeper pick DIR --where 'verbmem<=0.1' --maximize utility --export model
    """
    from sweeper.store.plugins import restore_plugins

    restore_plugins(Path(folder))  # before any registry is read

    from sweeper.export.pick import choose

    choice = choose(Path(folder), raw, problems)
    if as_json:
        click.echo(json_text(choice.content))
        if choice.content["checkpoint"] is None:
            click.echo(choice.missing, err=True)
        return
    click.echo("\n".join(_choice_lines(choice)))


def _choice_lines(choice: Choice) -> Iterator[str]:
    from analysis.words import format_settings, number

    row = choice.pick.row
    yield f"{choice.name}: {format_settings(row, choice.table.varying)}"
    yield f"why: {choice.pick.reason}"
    for line in choice.pick.lines:
        yield f"judgement: {line}"
    baseline = choice.sweep.baseline_of(row)
    width = max(map(len, choice.metrics), default=0)
    for column, value in choice.metrics.items():
        references = {"target": baseline.get(column), "never saw": choice.sweep.never_saw.get(column)}
        texts = [f"{name} {number(value)}" for name, value in references.items() if value is not None]
        comparison = f"   ({', '.join(texts)})" if texts else ""
        yield f"  {column:<{width}}  {number(value)}{comparison}"
    is_deleted = choice.checkpoint is not None and not choice.exists
    suffix = " (no longer exists)" if is_deleted else ""
    yield f"checkpoint: {choice.checkpoint or 'none was saved'}{suffix}"
    yield from choice.notes
    if registered := choice.content.get("registered"):
        version, run_id = registered["version"], registered["run_id"]
        yield f"registered: {registered['uri']} (version {version}, from MLflow run {run_id})"
