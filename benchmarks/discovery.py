"""Is a combination of objective, weighting, update and interpolation better against attacks than published methods?

    python benchmarks/discovery.py --rows docs/data/discovery.csv             # makes the missing runs
    python benchmarks/discovery.py --rows docs/data/discovery.csv --table     # prints the results

docs/data/discovery_protocol.md states the space, the measures and the problems, and was written before the first run.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from study_rows import Row, print_table, read_rows, run_missing, study_parser

from analysis.study.paired import mean_interval
from trainables.models.registry import MODELS
from trainables.spec import TrialSpec
from trainables.spec_checks import trial_problems

# The protocol draws from these parts. They are not the registries, because a later entry would change the draw.
OBJECTIVES = ("ascent", "npo", "simnpo", "dpo", "wga", "satimp", "undial", "ce-u", "rmu", "jensun", "flat", "max-logit")
WEIGHTINGS = (
    "gd", "ga", "gdiff", "lossnorm", "rlw", "ngdiff", "imtl-g", "pcgrad", "pcgrad-paper", "mgda", "cagrad", "gradvac",
    "gradnorm", "nash-mtl", "aligned-mtl", "upgrad", "dualproj", "graddrop", "rotograd", "rotograd-scale", "blur",
    "dual", "gru", "orthograd",
)  # fmt: skip
UPDATES = ("plain", "sam", "sign")

PUBLISHED = (
    "gd",
    "ga",
    "gdiff",
    "ngdiff",
    "npo",
    "npo+ngdiff",
    "simnpo",
    "wga",
    "satimp",
    "undial",
    "ce-u",
    "pcgrad",
    "blur",
    "gru",
)
DEVELOPMENT, TEST = ("3", "8"), ("5", "9")
FIRST_SEEDS, MORE_SEEDS, TEST_SEEDS = ("0",), ("1", "2"), tuple(map(str, range(100, 108)))
DRAWN, KEPT_DRAWN, KEPT_PUBLISHED = 24, 6, 3
RATE_FACTORS = ("0.333", "1", "3")
EPOCHS = 4
ATTACKS = ("int8", "nf4")
KEY = ("combination", "problem", "seed", "factor")
SUFFIXES = ("", *(f"_after_{attack}" for attack in ATTACKS))
METRICS = tuple(f"{name}{suffix}" for name in ("forget_accuracy", "retain_accuracy") for suffix in SUFFIXES)
COLUMNS = (*KEY, "status", *METRICS)
MODEL = MODELS["tiny-resnet"]
Scores = dict[tuple[str, str, str], float]
"""Scores by combination, problem and seed."""


def spec_of(combination: str, problem: str = DEVELOPMENT[0], seed: str = "0", factor: str = "1") -> TrialSpec:
    """Return the spec of a run. A combination is ``METHOD UPDATE INTERPOLATION``, such as ``npo+ngdiff sam off``."""
    method, update, interpolate = combination.split()
    return TrialSpec(
        model=MODEL.name, dataset="digits", batch_size=MODEL.batch_size, eval_batch_size=MODEL.eval_batch_size,
        method=method, update=update, interpolate=interpolate, lr=MODEL.lr * float(factor), epochs=EPOCHS,
        eval_every=EPOCHS, seed=int(seed), forget_class=problem,
    )  # fmt: skip


def published() -> list[str]:
    return [f"{name} plain off" for name in PUBLISHED if not trial_problems(spec_of(f"{name} plain off"))]


def drawn() -> list[str]:
    """Return the combinations of the search, in the order in which they were drawn."""
    methods = [f"{objective}+{weighting}" for objective, weighting in itertools.product(OBJECTIVES, WEIGHTINGS)]
    space = [" ".join(parts) for parts in itertools.product(methods, UPDATES, ("off", "on"))]
    random.Random(2026).shuffle(space)
    return list(itertools.islice((item for item in space if is_allowed(item)), DRAWN))


def is_allowed(combination: str) -> bool:
    try:
        return not trial_problems(spec_of(combination))
    except ValueError:  # the objective has no such weighting
        return False


def run(combination: str, problem: str, seed: str, factor: str) -> Iterator[dict[str, object]]:
    """Unlearn once, attack the last model, and yield its row."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import prepare_target
    from trainables.target.target import attack_settings
    from trainables.worker.process import worker_workspace

    torch.set_num_threads(1)
    spec = spec_of(combination, problem, seed, factor)
    target = prepare_target(spec)
    workspace = worker_workspace(target, "cpu")
    unlearning = UnlearningRun(replace(spec, target_key=target.key), workspace)
    last = list(unlearning)[-1]
    row: dict[str, object] = {"status": str(last.status)}
    if last.status == "finished":
        evaluator = workspace.evaluator(batch_size=spec.eval_batch_size)
        evaluator.attack_settings = attack_settings(spec)
        metrics = evaluator.scores(unlearning.model).measure(METRICS).metrics
        row |= {name: f"{value:.5f}" for name, value in metrics.items()}
    yield row


def scores_of(rows: Sequence[Row]) -> Scores:
    """Return the score of each (combination, problem, seed) whose three rates have run."""
    runs: defaultdict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        runs[row["combination"], row["problem"], row["seed"]].append(row)
    complete = {key: group for key, group in runs.items() if len(group) == len(RATE_FACTORS)}
    return {key: area([point(row) for row in group if row["status"] == "finished"]) for key, group in complete.items()}


def point(row: Row) -> tuple[float, float]:
    """Return the worst values of a model without attack and after each attack: (forgotten, retained)."""
    forget = max(float(row[f"forget_accuracy{suffix}"]) for suffix in SUFFIXES)
    return 1.0 - forget, min(float(row[f"retain_accuracy{suffix}"]) for suffix in SUFFIXES)


def area(points: Sequence[tuple[float, float]]) -> float:
    """Return the area that the points dominate, with the reference (0, 0)."""
    total, height = 0.0, 0.0
    for forgotten, retained in sorted(points, reverse=True):
        total += forgotten * max(0.0, retained - height)
        height = max(height, retained)
    return total


def best(scores: Scores, combinations: Sequence[str], seeds: Sequence[str], count: int) -> list[str] | None:
    """Return the combinations with the best mean score on the development problems; None if a score is missing."""
    keys = {name: list(itertools.product([name], DEVELOPMENT, seeds)) for name in combinations}
    if any(key not in scores for group in keys.values() for key in group):
        return None
    return sorted(keys, key=lambda name: -statistics.fmean(scores[key] for key in keys[name]))[:count]


def finalists(rows: Sequence[Row]) -> tuple[list[str], list[str]] | None:
    """Return the drawn and the published combinations of the second round; None before the first round is complete."""
    scores = scores_of(rows)
    found = best(scores, drawn(), FIRST_SEEDS, KEPT_DRAWN), best(scores, published(), FIRST_SEEDS, KEPT_PUBLISHED)
    return None if None in found else found  # type: ignore[return-value]


def winners(rows: Sequence[Row]) -> list[str] | None:
    """Return the best drawn and the best published combination; None before the second round is complete."""
    groups = finalists(rows)
    if groups is None:
        return None
    found = [best(scores_of(rows), group, (*FIRST_SEEDS, *MORE_SEEDS), 1) for group in groups]
    return None if None in found else [group[0] for group in found if group]


def print_results(rows: Sequence[Row]) -> None:
    scores = scores_of(rows)
    chosen = winners(rows)
    means = defaultdict(list)
    for (name, problem, _), score in scores.items():
        if problem in DEVELOPMENT:
            means[name].append(score)
    ranked = sorted(means.items(), key=lambda item: -statistics.fmean(item[1]))
    known = published()
    cells = [
        (name, len(group), f"{statistics.fmean(group):.3f}", "published" if name in known else "drawn")
        for name, group in ranked
    ]
    print_table(("combination", "development scores", "mean", "kind"), cells)
    first = len(FIRST_SEEDS) * len(DEVELOPMENT) * (len(published()) + DRAWN)
    print(f"\n{len(scores)} scores; the first round needs {first}")
    tests = [[[(name, problem, seed) for problem in TEST] for name in chosen or ()] for seed in TEST_SEEDS]
    if chosen is None or any(key not in scores for pair in tests for keys in pair for key in keys):
        print("the test is not complete, so there is no result yet")
        return
    means_by_seed = [[statistics.fmean(scores[key] for key in keys) for keys in pair] for pair in tests]
    differences = [found - other for found, other in means_by_seed]
    low, high = mean_interval(differences)
    verdict = "better" if low > 0 else "worse" if high < 0 else "undecided"
    print(f"\n{chosen[0]} - {chosen[1]}: {statistics.fmean(differences):+.4f} [{low:+.4f}, {high:+.4f}], {verdict}")


def main() -> None:
    arguments = study_parser(__doc__).parse_args()

    def make(combinations: Sequence[str], problems: Sequence[str], seeds: Sequence[str]) -> list[Row]:
        jobs = list(itertools.product(combinations, problems, seeds, RATE_FACTORS))
        run_missing(arguments.rows, (KEY, COLUMNS), jobs, run)
        return read_rows(arguments.rows)

    if not arguments.table:
        rows = make([*published(), *drawn()], DEVELOPMENT, FIRST_SEEDS)
        groups = finalists(rows)
        assert groups is not None
        chosen = winners(make([*groups[0], *groups[1]], DEVELOPMENT, MORE_SEEDS))
        assert chosen is not None
        make(chosen, TEST, TEST_SEEDS)
    print_results(read_rows(arguments.rows))


if __name__ == "__main__":
    main()
