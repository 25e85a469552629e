"""Is the paper's automatic rate better than the best fixed rate? Makes the runs of docs/data/rate_protocol.md.

    python benchmarks/rate_experiment.py --part development --rows docs/data/rate_development.csv
    python benchmarks/rate_experiment.py --part report --rows docs/data/rate_report.csv --tofu DIR --pretrained DIR
    python benchmarks/rate_experiment.py --part development --rows docs/data/rate_development.csv --table

Appends a row per run, and prints each finished run. After an interruption, the same command makes only the missing
runs. All runs of a seed are made before the runs of the next seed. ``--processes`` sets the number of runs at the same
time. ``--table`` prints the results in the file and runs nothing. ``--tofu`` is the folder with TOFU's files, and
``--pretrained`` is the folder with the pretrained model. Problems whose folders are not given are left out.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rate_arms import prepare, settings_of
from rate_results import KEY, SCORES, by_arm, print_arms, print_factors, print_verdicts, score, scored, select
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from trainables.spec import TrialSpec

RATES = ("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
FROZEN = ""
"""The selected variant of ``gen-trust``; empty until the development part is complete."""
STARTS = ("1e-4", "3e-3")
"""The initial rates of the rules in the development part: one is below and one is above the best fixed rates."""
FEW_STARTS = ("1e-4", "1e-3", "1e-2")
"""The initial rates of the rules with the pretrained model, whose runs are expensive."""
PRIMARY = "ngdiff"
METHODS: dict[str, tuple[tuple[str, float], ...]] = {PRIMARY: (), "gdiff": (("c", 0.9),)}
DELTAS, BATCHES = ("0", "0.005", "0.02", "0.1"), (1, 2, 8)
CANDIDATES = tuple(f"gen-trust+delta={delta}+batches={count}" for delta in DELTAS for count in BATCHES)
CHANGES = ("double", "accept", "significant", "double+accept")
"""The changes that are tried on the selected candidate in the second stage of the development part."""
LEAST_SEEDS = 8
"""The number of development seeds on which the candidates are compared."""

TINY: dict[str, Any] = {"batch_size": 4, "epochs": 15, "eval_every": 15}
PROBLEMS: dict[str, dict[str, Any]] = {
    "phi-authors": {"model": "tiny-phi", "dataset": "authors", **TINY},
    "llama-authors": {"model": "tiny-llama", "dataset": "authors", **TINY},
    "gpt2-authors": {"model": "tiny-gpt2", "dataset": "authors", **TINY},
    "gpt2-tofu": {"model": "tiny-gpt2", "dataset": "jsonl", **TINY},
    "resnet-digits": {"model": "tiny-resnet", "dataset": "digits", "batch_size": 32, "epochs": 15, "eval_every": 15},
    "pretrained-tofu": {
        "dataset": "jsonl",
        "target_epochs": 15,
        "target_lr": 1e-4,
        "target_batch_size": 4,
        "lora_rank": 16,
        "batch_size": 4,
        "epochs": 10,
        "eval_every": 10,
    },
}
PARTS = {
    "development": (("phi-authors", "llama-authors"), range(900, 900 + LEAST_SEEDS)),
    "report": (("gpt2-authors", "gpt2-tofu", "resnet-digits", "pretrained-tofu"), range(1000, 1020)),
}
"""The problems and the seeds of each part. A seed varies the order of examples and the target."""
OUTCOME = (
    *("status", *SCORES, *(f"target_{name}" for name in SCORES), "forget_loss", "retain_loss", "last_rate", "steps"),
    *("steps_undone", "interpolation", "updates", "updates_accepted"),
    *("train_seconds", "decision_seconds", "eval_seconds"),
)

Job = tuple[str, int, str, str, str]


def jobs_of(
    part: str, problems: Sequence[str], methods: Sequence[str], seeds: Sequence[int], rates: Sequence[str] = RATES
) -> Iterator[Job]:
    """Yield the runs of a part, without restarts. The arms vary fastest, so that an interrupted part is balanced."""
    arms: list[tuple[str, str]] = [("off", rate) for rate in rates]
    if part == "development":
        arms += itertools.product(("gen", *CANDIDATES), STARTS)
    else:
        rules = ("gen", "gen-official", "curvature", FROZEN)
        arms += itertools.product(("off+decay", "off+interpolate"), rates)
        arms += itertools.product(rules, rates)
        arms += itertools.product([f"{rule}+interpolate" for rule in rules], rates)
    for seed, method, problem, (arm, rate) in itertools.product(seeds, methods, problems, arms):
        is_short = method == PRIMARY and (arm.startswith("off") or rate in FEW_STARTS)
        if problem != "pretrained-tofu" or is_short:
            yield problem, seed, method, arm, rate


def restarts(rows: Sequence[Row]) -> list[Job]:
    """Return the runs with restart: one for each run that diverged, because other runs never restart."""
    keys = [tuple(row[name] for name in KEY) for row in rows if row["status"] == "diverged"]
    return [(p, int(s), m, f"{arm}+restart", rate) for p, s, m, arm, rate in keys if "+" not in arm or arm == FROZEN]


def second_stage(candidate: str, problems: Sequence[str], methods: Sequence[str], seeds: Sequence[int]) -> list[Job]:
    """Return the runs with the changes of the selected candidate."""
    # Without a standard error, every G would count as 0.
    changes = [change for change in CHANGES if change != "significant" or not candidate.endswith("batches=1")]
    arms = itertools.product([f"{candidate}+{change}" for change in changes], STARTS)
    return [(p, s, m, *arm) for s, m, p, arm in itertools.product(seeds, methods, problems, list(arms))]


def spec_of(problem: str, seed: int, method: str, arm: str, rate: str) -> TrialSpec:
    """Return the settings of a run, without paths."""
    spec = TrialSpec(seed=seed, target_seed=seed, method=method, options=METHODS[method], lr=float(rate))
    spec = replace(spec, auto_lr_log_forget=False)
    return TrialSpec.from_dict(spec.to_dict() | PROBLEMS[problem] | settings_of(arm))


def run(
    problem: str, seed: int, method: str, arm: str, rate: str, *, folders: dict[str, dict[str, str]]
) -> list[dict[str, Any]]:
    """Make one run and return its row. ``folders`` has the paths of the problems that need files."""
    from one_run import unlearn

    spec = TrialSpec.from_dict(spec_of(problem, seed, method, arm, rate).to_dict() | folders.get(problem, {}))
    unlearning, report, workspace = unlearn(spec, partial(prepare, arm=arm))
    training, timers, target = report.training, report.timers, workspace.target.baseline
    row = {
        "status": str(report.status),
        **{name: report.metrics.get(name) for name in SCORES},
        **{f"target_{name}": target.get(name) for name in SCORES},
        **{name: report.losses.get(name) for name in ("forget_loss", "retain_loss")},
        "last_rate": unlearning.rate,
        "steps": report.step,
        "steps_undone": training.get("steps_undone", 0.0),
        "interpolation": training.get("interpolation"),
        "updates": training.get("lr_updates"),
        "updates_accepted": training.get("lr_updates_accepted"),
        "train_seconds": round(timers.train_seconds, 2),
        "decision_seconds": round(timers.decision_seconds, 2),
        "eval_seconds": round(timers.eval_seconds, 2),
    }
    return [row]


def selection(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the candidates that the protocol selects in the two stages; "" for a stage with missing runs."""
    finished = {tuple(row[name] for name in KEY) for row in rows}

    def complete(jobs: Iterable[Job]) -> bool:
        return all(tuple(map(str, job)) in finished for job in jobs)

    problems, seeds = PARTS["development"]
    runs = scored(rows, spec_of) if complete(jobs_of("development", problems, list(METHODS), seeds)) else []
    if not runs:
        return "", ""
    preferred = sorted(CANDIDATES, key=lambda arm: int(arm.rpartition("=")[2]))  # stable: smaller deltas come first
    first = select(runs, preferred, "gen")
    second = second_stage(first, problems, list(METHODS), seeds)
    changed = list(dict.fromkeys(arm for _, _, _, arm, _ in second))
    return first, select(runs, [first, *changed], "gen") if complete(second) else ""


def print_results(part: str, rows: Sequence[Row]) -> None:
    """Print a table of all arms, and the selection (development) or the verdicts (report)."""
    rows = [row for row in rows if row["problem"] in PARTS[part][0]]
    runs = scored(rows, spec_of)
    print_arms(runs)
    if part == "report":
        print_factors(runs, ("decay", "restart", "interpolate"))
        print_verdicts(rows, spec_of, f"{PRIMARY}/gen/same")
        return
    scores = {arm: (len(of_arm), score(of_arm)) for arm, of_arm in by_arm(runs).items()}
    print()
    print_table(("arm", "runs", "score"), [(arm, n, f"{value:.3f}") for arm, (n, value) in scores.items()])
    first, second = selection(rows)
    print(f"\nselected in the first stage: {first or 'nothing yet'}; in the second stage: {second or 'nothing yet'}")


def write_rows(tofu: Path, folder: Path) -> None:
    """Write the rows of TOFU for the report part, which no earlier measurement used (docs/data/rate_protocol.md)."""

    def lines_of(name: str) -> list[str]:
        return (tofu / f"{name}.json").read_text(encoding="utf-8").splitlines()

    earlier = set(lines_of("forget05"))
    forget = _shortest([line for line in lines_of("forget10") if line not in earlier], 20)
    retain = _shortest(lines_of("retain90")[1000:1400], 100)
    tables = {"forget": forget, "retain": retain, "retain_eval": [line for i, line in enumerate(retain) if i % 5 < 3]}
    for name, lines in tables.items():
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _shortest(lines: Sequence[str], count: int) -> list[str]:
    rows = [json.loads(line) for line in lines]
    order = sorted(range(len(lines)), key=lambda index: len(rows[index]["question"] + rows[index]["answer"]))
    return [lines[index] for index in sorted(order[:count])]


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--part", choices=PARTS, required=True)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS)
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seed", nargs="+", type=int)
    parser.add_argument("--rate", nargs="+", default=list(RATES), help="Further rates, if the best one is at an edge.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tofu", type=Path)
    parser.add_argument("--pretrained", type=Path)
    args = parser.parse_args()
    if args.table:
        print_results(args.part, read_rows(args.rows))
        return
    if args.part == "report" and not FROZEN:
        parser.error("no variant of gen-trust is frozen: finish the development part, and set FROZEN to its selection")
    with tempfile.TemporaryDirectory() as name:
        folders: dict[str, dict[str, str]] = {}
        if args.tofu:
            write_rows(args.tofu, Path(name))
            folders["gpt2-tofu"] = {"data_dir": name}
        if args.tofu and args.pretrained:
            folders["pretrained-tofu"] = {"data_dir": name, "model_path": str(args.pretrained)}
        problems, seeds = args.problem or PARTS[args.part][0], args.seed or PARTS[args.part][1]
        absent = [problem for problem in problems if problem.endswith("-tofu") and problem not in folders]
        if args.problem and absent:
            parser.error(f"{', '.join(absent)}: give --tofu, and --pretrained for pretrained-tofu")
        if absent:
            print("left out without --tofu or --pretrained:", *absent, flush=True)
        problems = [problem for problem in problems if problem not in absent]

        def make(jobs: Iterable[Job]) -> None:
            columns, job_run = (KEY, (*KEY, *OUTCOME)), partial(run, folders=folders)
            run_missing(args.rows, columns, jobs, job_run, processes=args.processes)

        make(jobs_of(args.part, problems, args.method, seeds, args.rate))
        if args.part == "report":
            make(restarts(read_rows(args.rows)))
        elif selected := selection(read_rows(args.rows))[0]:
            make(second_stage(selected, problems, args.method, seeds))


if __name__ == "__main__":
    main()
