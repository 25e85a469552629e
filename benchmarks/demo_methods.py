"""Which methods suit the default sweep, which has the model tiny-phi and the data set authors?

    python benchmarks/demo_methods.py --rows FILE.csv          # makes the missing runs, with a row per measured epoch
    python benchmarks/demo_methods.py --rows FILE.csv --table  # prints the best epoch of each method

Every method and ten pairs run with three rates of the default search range, on three seeds. The metrics are measured
after 5, 10 and 15 epochs. With ``--items DIR``, the answers and the values of all items are kept, too.

An answer to a forget question is of one of four kinds. *Empty* answers have no words. *Loops* repeat a phrase at least
three times in a row, or have at least 30% repeated 3-grams. *Refusals* have at least 75% of their words in common with
a sentence of trainables/data/refusals.txt. All other answers are *fluent*, even if they make no sense.
``forget_answer_loss`` shows whether they do.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from study_rows import Row, print_table, read_rows, run_missing, study_parser

from search_spaces.common.words import words
from trainables.spec import TrialSpec

RATES, SEEDS, EPOCHS, EVERY = ("2e-4", "5e-4", "1e-3"), (950, 951, 952), 15, 5
PAIRS = tuple(
    f"{objective}+{weighting}"
    for objective in ("npo", "simnpo", "dpo", "undial", "ce-u")
    for weighting in ("gdiff", "ngdiff")
)
"""Objectives whose default weighting has no retain gradient, with weightings that have one."""
KINDS = ("fluent", "refusal", "loops", "empty")
LOOP, REFUSAL = 0.3, 0.75
KEY = ("method", "lr", "seed")
SCORES = ("forget_loss_capped", "retain_loss", "verbmem", "utility", "retain_kl", "forget_answer_loss")
COLUMNS = (
    *(*KEY, "epoch", "status", "forget_facts", "retain_facts_kept", "rephrased_facts_kept", *KINDS),
    *("forget_repetition", "retain_repetition", *SCORES, "train_seconds"),
)


def refusals() -> list[list[str]]:
    import trainables.objectives

    path = Path(trainables.data.__file__).with_name("refusals.txt")
    return [words(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def kind_of(answer: str, known_refusals: Sequence[Sequence[str]]) -> str:
    """Return the kind of an answer to a forget question."""
    from trainables.metrics.repetition import longest_loop, repetition

    answer_words = words(answer)
    if not answer_words:
        return "empty"
    if longest_loop([answer])[0] > 0 or repetition([answer])[0] >= LOOP:
        return "loops"
    is_refusal = any(SequenceMatcher(None, answer_words, line).ratio() >= REFUSAL for line in known_refusals)
    return "refusal" if is_refusal else "fluent"


def run(method: str, lr: str, seed: int, *, items: Path | None) -> Iterator[dict[str, object]]:
    """Make one run, and yield a row for each epoch with measured metrics."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.scoring.item_log import write_item_log
    from trainables.target.prepare import prepare_target
    from trainables.worker.process import worker_workspace

    torch.set_num_threads(1)
    spec = TrialSpec(
        method=method,
        lr=float(lr),
        seed=seed,
        epochs=EPOCHS,
        eval_every=EVERY,
        metrics_every=EVERY,
        metrics=("default", "facts"),
    )
    target = prepare_target(spec)
    unlearning = UnlearningRun(spec, worker_workspace(target, "cpu"))
    known_refusals = refusals()
    for report in unlearning:
        if not report.metrics:
            if report.status is not None:
                yield {"epoch": report.epoch, "status": str(report.status)}
            continue
        values, before = {**report.losses, **report.metrics}, target.baseline
        generated = unlearning.items["eval_log_forget.json"]["generated_text"]
        kinds = Counter(kind_of(answer, known_refusals) for _, answer, _ in generated.values())  # type: ignore[attr-defined]
        shown = {name: values[name] for name in (*SCORES, "forget_repetition", "retain_repetition")} | {
            "forget_facts": values["forget_fact_recall"],
            "retain_facts_kept": values["retain_fact_recall"] / before["retain_fact_recall"],
            "rephrased_facts_kept": values["retain_fact_recall_rephrased"] / before["retain_fact_recall_rephrased"],
        }
        if items is not None:
            write_item_log(items / f"{method}-{lr}-{seed}-{report.epoch:g}.json", unlearning.items)
        yield {
            "epoch": f"{report.epoch:g}",
            "status": str(report.status or ""),
            **{name: f"{value:.5g}" for name, value in shown.items()},
            **{kind: kinds[kind] for kind in KINDS},
            "train_seconds": f"{report.timers.train_seconds:.2f}",
        }


def best_epochs(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Return each method's rows of its best rate and epoch, one per seed.

    The best rate and epoch have the highest mean, over the seeds, of the smaller of two shares: retained facts kept,
    and forgotten facts not told.
    """
    groups: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["retain_facts_kept"]:
            groups[row["method"], row["lr"], row["epoch"]].append(row)
    seeds = {row["seed"] for group in groups.values() for row in group}
    best: dict[str, tuple[float, list[Row]]] = {}
    for (method, _, _), group in groups.items():
        scores = [min(1.0, float(row["retain_facts_kept"]), 1.0 - float(row["forget_facts"])) for row in group]
        mean = statistics.fmean(scores) if len(group) == len(seeds) else -math.inf
        if mean > best.get(method, (-math.inf, []))[0]:
            best[method] = (mean, group)
    return {method: group for method, (_, group) in sorted(best.items(), key=lambda item: -item[1][0])}


def print_results(rows: Iterable[Row]) -> None:
    names = ("forget_facts", "retain_facts_kept", "rephrased_facts_kept", *KINDS, "retain_repetition", *SCORES[2:])

    def means(group: Sequence[Row]) -> Iterator[str]:
        for name in names:
            yield f"{statistics.fmean(float(row[name]) for row in group):.3g}"

    print_table(
        ("method", "lr", "epoch", *names),
        ((method, group[0]["lr"], group[0]["epoch"], *means(group)) for method, group in best_epochs(rows).items()),
    )


def main() -> None:
    from functools import partial

    from trainables.methods import method_names

    parser = study_parser(__doc__, Path("runs/demo_methods.csv"))
    parser.add_argument("--method", nargs="+", default=[*PAIRS, *method_names()])
    parser.add_argument("--seed", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--items", type=Path, help="Folder for the answers and the values of the items.")
    args = parser.parse_args()
    if not args.table:
        jobs = ((method, lr, seed) for seed, lr, method in itertools.product(args.seed, RATES, args.method))
        run_missing(args.rows, (KEY, COLUMNS), jobs, partial(run, items=args.items))
    print_results(read_rows(args.rows))


if __name__ == "__main__":
    main()
