"""How large is the page of a large sweep, what does its report cost, and which library draws figure files faster?

    python benchmarks/report_page.py [--trials 300] [--epochs 15] [--questions 100] [--out DIR]

Writes a sweep of random scores and answers, and its report. Then draws the trade-off of all epochs as SVG and as PNG,
with matplotlib and with Altair (vl-convert), and all figures of the report with matplotlib. Times are seconds of CPU of
this process.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from analysis.figures.gallery import gallery
from analysis.figures.panels import draw_panels
from analysis.figures.pareto import pareto_figure
from analysis.figures.save import save_figure
from analysis.figures.vega import vega_script
from analysis.report.report import draw_frontier, write_report
from analysis.tables.sources import read_sources
from analysis.tables.tasks import by_task
from sweeper.store.columns import column_dictionary

STEPS_PER_EPOCH = 10
GUESS = 8.0
TARGET = {"forget_loss": 0.1, "forget_loss_capped": 0.1, "retain_loss": 0.1, "verbmem": 0.9, "utility": 0.9}
FACTS = {"forget_fact_recall": 0.95, "retain_fact_recall": 0.9}
OBJECTIVES = [
    {"name": name, "column": column, "direction": direction, "low": 0.0, "high": GUESS, "label": name}
    for name, column, direction in (
        ("forget loss", "forget_loss_capped", "max"),
        ("retain loss", "retain_loss", "min"),
    )
]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--questions", type=int, default=100, help="half of them are about the forget set")
    parser.add_argument("--out", type=Path, help="keep the sweep in this folder")
    args = parser.parse_args()
    vega_script()  # it is bundled once per user
    with TemporaryDirectory() as scratch:
        out = args.out or Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        write_sweep(out, args.trials, args.epochs, args.questions)
        line("report.html, pareto.json and all figures", seconds(lambda: write_report(out)))
        page = (out / "report.html").read_text(encoding="utf-8")
        print(f"  page: {len(page.encode()) / 1e6:.2f} MB, including {len(vega_script()) / 1e6:.2f} MB for Vega-Lite")
        figures(out)


def figures(out: Path) -> None:
    """Draw the figures of the report with matplotlib, and its largest figure with both libraries."""
    sources = read_sources([out], out=out)
    drawings = [draw_panels(data) for _, data in gallery(by_task(sources)[0])]
    folder = out / "drawn"
    line(f"matplotlib, {len(drawings)} panel figures as SVG and PNG", seconds(lambda: saved(drawings, folder)))
    data = pareto_figure(sources.table, sources.sweep)
    line("matplotlib, the frontier as SVG and PNG", seconds(lambda: saved([draw_frontier(data)], folder)))
    for name, chart in charts(sources.table.models.trials):
        spec = chart.to_json(indent=None)
        for kind, convert in (("SVG", vl_convert.vegalite_to_svg), ("PNG", vl_convert.vegalite_to_png)):
            line(f"Altair, {name} as {kind}", seconds(partial(convert, spec)))


def saved(drawings: Sequence[Any], folder: Path) -> None:
    for index, figure in enumerate(drawings):
        save_figure(figure, folder, f"figure-{index}")


def charts(rows: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Yield the frontier's points as an Altair chart, without and with the trail of each trial."""
    alt.data_transformers.disable_max_rows()
    shown = rows[["trial_id", "epoch", "method", "forget_loss_capped", "retain_loss"]]
    base = alt.Chart(shown).encode(alt.X("forget_loss_capped:Q"), alt.Y("retain_loss:Q"))
    points = base.mark_circle().encode(color="method:N")
    trails = base.mark_line(opacity=0.4).encode(detail="trial_id:N", order="epoch:Q")
    yield f"{len(shown)} points", points.properties(width=640, height=440)
    yield f"{len(shown)} points with trails", alt.layer(trails, points).properties(width=640, height=440)


def write_sweep(out: Path, trials: int, epochs: int, questions: int) -> None:
    """Write the tables and the answers of a sweep. Only the last epoch of a trial has metrics and answers."""
    rng = random.Random(0)
    content = {
        "format": 2,
        "columns": column_dictionary(random_guess=GUESS, unit="token"),
        "name": "random",
        "created": "2026-01-01T00:00:00+00:00",
        "settings": {"base": {"model": "tiny-phi", "dataset": "authors"}, "trials": trials},
        "objectives": OBJECTIVES,
        "random_guess_loss": GUESS,
        "vocabulary_size": 2981,
        "baseline": TARGET | FACTS,
    }
    (out / "sweep.json").write_text(json.dumps(content), encoding="utf-8")
    (out / "items").mkdir(exist_ok=True)
    rows, reports, models = [], [], []
    for index in range(trials):
        name = f"{index:05d}"
        strength, damage = rng.uniform(0, GUESS), rng.uniform(0, 3)
        checkpoint = {"checkpoint": f"checkpoints/{name}"}
        (out / "checkpoints" / name).mkdir(parents=True, exist_ok=True)
        settings: dict[str, object] = {
            "trial_id": name,
            "spec_hash": f"{index:016x}",
            "model": "tiny-phi",
            "dataset": "authors",
        }
        settings |= {"method": rng.choice(["gdiff", "ngdiff"]), "lr": 10 ** rng.uniform(-5, -3), "auto_lr": "off"}
        settings |= {"c": round(rng.uniform(0, 1), 3), "seed": 0, "epochs": epochs, "batch_size": 8, "target_key": "0"}
        keeps = rng.uniform(0.5, 0.9)
        scores = {"verbmem": rng.uniform(0, 0.3), "utility": keeps, "forget_fact_recall": rng.uniform(0, 0.3)}
        scores |= {"retain_fact_recall": keeps, "retain_kl": damage}
        for epoch in range(1, epochs + 1):
            forget = strength * epoch / epochs
            losses = {"forget_loss": forget, "forget_loss_capped": forget, "retain_loss": 0.1 + damage * epoch / epochs}
            step = {"trial_id": name, "epoch": float(epoch), "step": STEPS_PER_EPOCH * epoch}
            reports.append(step | {"lr": settings["lr"], "seconds": float(epoch)} | losses)
            models.append(step | losses | (scores | checkpoint if epoch == epochs else {}))
        ended = {
            "status": "finished",
            "error": "",
            "optimizer": "adamw",
            "steps": STEPS_PER_EPOCH * epochs,
            "epochs_done": float(epochs),
        }
        rows.append(settings | ended | {"wall_seconds": float(epochs)} | losses | scores | checkpoint)
        write_answers(out / "items" / f"{name}.json", rng, questions)
    write_answers(out / "items" / "target-0.json", rng, questions)
    for name, table in (("trials", rows), ("history", reports), ("candidates", models)):
        with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(column for row in table for column in row)))
            writer.writeheader()
            writer.writerows(table)


def write_answers(path: Path, rng: random.Random, questions: int) -> None:
    words = [f"word{index}" for index in range(40)]
    log = {
        name: {
            "generated_text": {
                str(index): [f"Who is author {index}?", " ".join(rng.choices(words, k=20)), "Ada Holt."]
                for index in range(questions // 2)
            }
        }
        for name in ("eval_log_forget.json", "eval_log.json")
    }
    path.write_text(json.dumps(log), encoding="utf-8")


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def line(what: str, amount: float) -> None:
    print(f"{what}: {amount:.1f} s")


if __name__ == "__main__":
    main()
