"""Make real runs on a fine grid and record the results of every epoch, for benchmarks/search_replay.py.

    python benchmarks/tabulate_runs.py --rows runs/tabulated.csv --tofu DIR_WITH_TOFUS_FILES
    python benchmarks/tabulate_runs.py --rows runs/tabulated.csv --write docs/data

Runs every combination of method, learning rate, seed and problem with tiny-phi, batch size 8 and one thread. Each run
adds a row per epoch. A second call makes only the missing runs. All runs of a seed are made before those of the next
seed, and problems alternate, so that an interrupted grid is balanced. ``--write`` makes one compressed table per
problem, with the rates that all methods have for a seed.

The problem ``authors`` uses the default data. The problem ``tofu`` uses the 20 shortest rows of TOFU's forget01 and the
100 shortest of the first 400 rows of retain99. The forget losses use the whole forget set, and the retain loss uses 20
evenly spread examples. ``verbmem`` and ``utility`` are ROUGE-L recall of greedy answers to 16 questions of each set,
the questions with the shortest answers.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import lzma
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from study_rows import appending, read_rows, row_keys

from trainables.spec import TrialSpec

if TYPE_CHECKING:
    from trainables.data.examples import Example
    from trainables.run.workspace import Workspace

C = (0.1, 0.68, 0.89, 0.96, 0.986, 0.995)
"""Evenly spaced in log(1 - c) over the range that is searched."""
METHODS = (*(("gdiff", c) for c in C), ("ngdiff", None), ("npo+ngdiff", None), ("pcgrad", None))
RATES = (3e-5, 7.1e-5, 1.7e-4, 4e-4, 9.5e-4, 2.2e-3, 5.3e-3, 1.3e-2, 3e-2)
EPOCHS = 10
PROBLEMS = ("authors", "tofu")
RETAIN_SAMPLE, ASKED = 20, 16
KEY = ("problem", "method", "c", "lr", "seed")
COLUMNS = (
    *("trial_id", *KEY, "model", "epochs", "epoch", "step", "status"),
    *("forget_loss", "forget_loss_capped", "retain_loss", "verbmem", "utility", "random_guess"),
    *("forget_loss_items", "retain_loss_items", "verbmem_items", "utility_items", "seconds"),
)


@dataclass(frozen=True)
class Sample:
    """Questions whose greedy answers are scored. The first ``forget`` questions belong to the forget set, the others to
    the retain set."""

    prompts: list[tuple[int, ...]]
    answers: list[str]
    forget: int
    longest: int


@dataclass(frozen=True)
class Prepared:
    """The parts of a problem that all its runs share, and the questions on which answers are scored."""

    spec: TrialSpec
    workspace: Workspace
    sample: Sample
    scorer: Any


def shortest(path: Path, *, first: int | None, number: int) -> list[str]:
    """Return the rows of a TOFU file with the shortest questions and answers, in the order of the file."""
    lines = path.read_text(encoding="utf-8").splitlines()[:first]
    rows = [json.loads(line) for line in lines]
    order = sorted(range(len(rows)), key=lambda place: len(rows[place]["question"]) + len(rows[place]["answer"]))
    return [lines[place] for place in sorted(order[:number])]


def tofu_rows(tofu: Path, folder: Path) -> None:
    """Return a problem of real rows that is small enough for runs of a few seconds."""
    for name, file, first, number in (("forget", "forget01", None, 20), ("retain", "retain99", 400, 100)):
        lines = shortest(tofu / f"{file}.json", first=first, number=number)
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(problem: str, tofu: Path | None) -> Prepared:
    """Return the problem with its target, fine-tuned or cached."""
    from trainables.run.workspace import Workspace
    from trainables.target.prepare import prepare_target
    from trainables.text.scorer import TextScorer

    # The run's own measurement at its end is one that costs nothing: the samples here are others.
    spec = TrialSpec(model="tiny-phi", batch_size=8, epochs=EPOCHS, metrics=("retain_probability",))
    if problem == "tofu":
        if tofu is None:
            raise SystemExit("the problem tofu needs --tofu DIR, the folder with TOFU's files")
        folder = Path(tempfile.mkdtemp(prefix="tofu-rows-"))
        tofu_rows(tofu, folder)
        spec = replace(spec, dataset="jsonl", data_dir=str(folder))
    target = prepare_target(spec, device="cpu")
    data: Any = target.data
    every = max(1, len(data.retain) // RETAIN_SAMPLE)
    data = replace(data, retain_eval=data.retain[::every][:RETAIN_SAMPLE])
    workspace = Workspace(replace(target, data=data), device="cpu")
    scorer = TextScorer(tokenizer=workspace.tokenizer, max_length=spec.max_length, batch_size=2 * ASKED, device="cpu")
    return Prepared(spec, workspace, asked_of(scorer, data.forget, data.retain_eval), scorer)


def asked_of(scorer: Any, forget: Sequence[Example], retain: Sequence[Example]) -> Sample:
    """Return the questions with the shortest answers, because generating answers is the main cost of evaluation."""
    pairs = [
        sorted(zip(scorer.encode(part), part, strict=True), key=lambda pair: len(pair[0]) - pair[0].prompt_length)[
            :ASKED
        ]
        for part in (forget, retain)
    ]
    chosen = [*pairs[0], *pairs[1]]
    return Sample(
        prompts=[tokens.prompt for tokens, _ in chosen],
        answers=[example.answer for _, example in chosen],
        forget=len(pairs[0]),
        longest=max(len(tokens) - tokens.prompt_length for tokens, _ in chosen),
    )


def run(
    prepared: Prepared, problem: str, method: str, c: float | None, lr: float, seed: int
) -> Iterator[dict[str, object]]:
    """Make one run and return a row per epoch."""
    from trainables.metrics.rouge import rouge_l_recall
    from trainables.run.run import UnlearningRun

    options = () if c is None else (("c", c),)
    spec = replace(prepared.spec, method=method, options=options, lr=lr, seed=seed)
    sample, data = prepared.sample, prepared.workspace.target.data
    guess = prepared.workspace.evaluator(max_length=spec.max_length, batch_size=spec.eval_batch_size).random_guess
    unlearning = UnlearningRun(spec, prepared.workspace)
    began = time.perf_counter()
    for report in unlearning:
        row: dict[str, object] = {
            **dict(zip(KEY, (problem, method, c, lr, seed), strict=True)),
            "model": spec.model,
            "epochs": spec.epochs,
            "epoch": int(report.epoch),
            "step": report.step,
            "status": str(report.status or ""),
            "random_guess": guess,
            "forget_loss_items": len(data.forget),
            "retain_loss_items": len(data.retain_eval),
            "verbmem_items": sample.forget,
            "utility_items": len(sample.answers) - sample.forget,
        }
        if report.status != "diverged":
            said = prepared.scorer.generate(unlearning.model, sample.prompts, max_new_tokens=sample.longest)
            recalls = rouge_l_recall(sample.answers, said)
            row |= dict(report.losses)
            row |= {
                "verbmem": float(recalls[: sample.forget].mean()),
                "utility": float(recalls[sample.forget :].mean()),
            }
        yield row | {"seconds": round(time.perf_counter() - began, 2)}


def trial_id(problem: str, method: str, c: float | None, lr: float, seed: int) -> str:
    """Return the id of a run, which is the same on every machine."""
    return "/".join((problem, method if c is None else f"{method}-{c:g}", f"{lr:g}", f"{seed}"))


def tabulate(path: Path, *, seeds: Sequence[int], problems: Sequence[str], tofu: Path | None) -> None:
    """Append the rows of every missing run. The rows of one run are written together."""
    import torch

    torch.set_num_threads(1)
    done = row_keys(read_rows(path), ("trial_id",))
    prepared = {problem: prepare(problem, tofu) for problem in problems}
    with appending(path, COLUMNS) as append:
        # Every other rate first, so that what is there early covers the whole range.
        for seed, half, (method, c), place, problem in itertools.product(
            seeds, (0, 1), METHODS, range(len(RATES)), problems
        ):
            lr = RATES[place]
            name = trial_id(problem, method, c, lr, seed)
            if place % 2 != half or (name,) in done:
                continue
            rows = [{"trial_id": name, **row} for row in run(prepared[problem], problem, method, c, lr, seed)]
            append({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
            last = rows[-1]
            shown = " ".join(f"{key}={last.get(key)}" for key in ("status", "forget_loss", "retain_loss", "verbmem"))
            print(f"{name} {shown} {last['seconds']} s", flush=True)


def write(path: Path, folder: Path) -> None:
    """Write one compressed table per problem with the rates that all methods have for a seed, in grid order."""
    rows = read_rows(path)
    for problem in sorted({row["problem"] for row in rows}):
        of = [row for row in rows if row["problem"] == problem]
        runs = Counter((seed, lr) for seed, lr, _ in {(row["seed"], row["lr"], row["trial_id"]) for row in of})
        of = [row for row in of if runs[row["seed"], row["lr"]] == len(METHODS)]
        of.sort(key=_place)
        if not of:
            continue
        with lzma.open(folder / f"tabulated_{problem}.csv.xz", "wt", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(of)


def _place(row: dict[str, str]) -> tuple[object, ...]:
    return int(row["seed"]), row["method"], float(row["c"] or 0), float(row["lr"]), int(row["epoch"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/tabulated.csv"))
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2, 3, 4, 5])
    parser.add_argument("--problem", nargs="+", default=list(PROBLEMS), choices=PROBLEMS)
    parser.add_argument("--tofu", type=Path, help="Folder with TOFU's files, of which forget01 and retain99 are read.")
    parser.add_argument("--write", type=Path, help="Write the compressed tables into this folder and run nothing.")
    given = parser.parse_args()
    if given.write:
        write(given.rows, given.write)
        return
    tabulate(given.rows, seeds=given.seed, problems=given.problem, tofu=given.tofu)


if __name__ == "__main__":
    main()
