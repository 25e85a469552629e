"""Is the paper's automatic rate better than the best fixed rate? Makes the runs of docs/data/rate_protocol.md.

    python benchmarks/rate_experiment.py --part development --rows docs/data/rate_development.csv
    python benchmarks/rate_experiment.py --part report --rows docs/data/rate_report.csv --tofu DIR --pretrained DIR
    python benchmarks/rate_experiment.py --part development --rows docs/data/rate_development.csv --table

Appends a row per run, and prints each finished run. After an interruption, the same command makes only the missing
runs. ``--stage`` selects stages of the report part. ``--processes`` sets the number of runs at the same time.
``--table`` prints the results in the file and runs nothing. ``--tofu`` is the folder with TOFU's files, and
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
from rate_results import (
    KEY,
    SCORES,
    by_arm,
    print_arms,
    print_factors,
    print_starts,
    print_verdicts,
    require_one_target,
    score,
    scored,
    select,
)
from study_rows import Row, print_table, read_rows, run_missing, study_parser

from trainables.spec import TrialSpec

RATES = ("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
FROZEN = "gen-trust+delta=0.005+batches=1"
"""The variant of ``gen-trust`` that the development part selects."""
STARTS = ("1e-4", "3e-3")
"""The initial rates of the rules in the development part: one is below and one is above the best fixed rates."""
FEW_STARTS = ("1e-4", "1e-3", "1e-2")
"""The initial rates of the rules with interpolation, and of all rules with the pretrained model, whose runs are
expensive."""
PRIMARY = "ngdiff"
METHODS: dict[str, tuple[tuple[str, float], ...]] = {PRIMARY: (), "gdiff": (("c", 0.9),)}
DELTAS, BATCHES = ("0", "0.005", "0.02", "0.1"), (1, 8)
CANDIDATES = tuple(f"gen-trust+delta={delta}+batches={count}" for delta in DELTAS for count in BATCHES)
CHANGES = ("double", "accept", "significant", "double+accept")
"""The changes that are tried on the selected candidate in the second stage of the development part."""
STAGES = ("primary", "others", "gen-trust", "gdiff")
"""The stages of the report part, in the order in which they are run: the primary comparison, the other arms except the
frozen ``gen-trust``, the frozen ``gen-trust``, and all arms with gdiff."""

TINY: dict[str, Any] = {"batch_size": 4, "epochs": 15, "eval_every": 15}
PROBLEMS: dict[str, dict[str, Any]] = {
    "phi-authors": {"model": "tiny-phi", "dataset": "authors", **TINY},
    "llama-authors": {"model": "tiny-llama", "dataset": "authors", **TINY},
    "gpt2-authors": {"model": "tiny-gpt2", "dataset": "authors", **TINY},
    "gpt2-tofu": {"model": "tiny-gpt2", "dataset": "jsonl", **TINY},
    "resnet-digits": {"model": "tiny-resnet", "dataset": "digits", "batch_size": 32, "epochs": 15, "eval_every": 15},
    "gpt2-lora": {"model": "tiny-gpt2", "dataset": "authors", "lora_rank": 8, **TINY},
    "gpt2-sgd": {"model": "tiny-gpt2", "dataset": "authors", "optimizer": "sgd", **TINY},
    "pretrained-tofu": {
        "model": "SmolLM2-135M-Instruct",
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
SCALES = ("gpt2-lora", "gpt2-sgd")
"""Problems on which the scale of the useful rates should differ from the others. They have fewer arms."""
PARTS = {
    "development": (("phi-authors", "llama-authors"), range(900, 904)),
    "report": (("gpt2-authors", "resnet-digits", "gpt2-tofu", *SCALES, "pretrained-tofu"), range(1000, 1020)),
}
"""The problems and the seeds of each part. A seed varies the order of examples and the target."""
OUTCOME = (
    *("status", *SCORES, *(f"target_{name}" for name in SCORES), "forget_loss", "retain_loss", "last_rate", "steps"),
    *("steps_undone", "interpolation", "updates", "updates_accepted"),
    *("train_seconds", "decision_seconds", "eval_seconds"),
)

Job = tuple[str, int, str, str, str]


def development_jobs() -> list[Job]:
    """Return the runs of the first stage of the development part. The arms vary fastest, then problem and method."""
    problems, seeds = PARTS["development"]
    arms = [*itertools.product(["off"], RATES), *itertools.product(("gen", *CANDIDATES), STARTS)]
    return [(p, s, m, *arm) for s, m, p, arm in itertools.product(seeds, METHODS, problems, arms)]


def report_jobs(
    stage: str, problems: Sequence[str], seeds: Sequence[int], rates: Sequence[str] = RATES
) -> Iterator[Job]:
    """Yield the runs of a stage of the report part, without restarts: all runs of a problem before those of the next.

    The arms vary fastest, so an interrupted stage has complete seeds.
    """
    arms: dict[str, list[tuple[str, Sequence[str]]]] = {
        "primary": [("off", rates), ("gen", rates)],
        "others": [
            *((arm, rates) for arm in ("off+decay", "off+interpolate", "gen-official", "curvature")),
            ("gen+interpolate", FEW_STARTS),
        ],
        "gen-trust": [(FROZEN, rates), (f"{FROZEN}+interpolate", FEW_STARTS)],
    }
    arms["gdiff"] = list(itertools.chain.from_iterable(arms.values()))
    method = "gdiff" if stage == "gdiff" else PRIMARY
    for problem, seed, (arm, arm_rates) in itertools.product(problems, seeds, arms[stage]):
        for rate in arm_rates:
            if _is_planned(problem, method, arm, rate):
                yield problem, seed, method, arm, rate


def _is_planned(problem: str, method: str, arm: str, rate: str) -> bool:
    """Return whether the protocol plans the run: the added problems and the pretrained model have fewer arms."""
    if problem in SCALES:
        return method == PRIMARY and arm in ("off", "gen", "curvature")
    is_short = method == PRIMARY and (arm.startswith("off") or rate in FEW_STARTS)
    return problem != "pretrained-tofu" or is_short


def restarts(rows: Sequence[Row]) -> list[Job]:
    """Return the runs with restart: one for each run that diverged, because other runs never restart."""
    keys = [tuple(row[name] for name in KEY) for row in rows if row["status"] == "diverged"]
    return [(p, int(s), m, f"{arm}+restart", rate) for p, s, m, arm, rate in keys if "+" not in arm or arm == FROZEN]


def second_stage(candidate: str) -> list[Job]:
    """Return the runs of the second stage of the development part: the changes of the selected candidate."""
    problems, seeds = PARTS["development"]
    # Without a standard error, every G would count as 0.
    changes = [change for change in CHANGES if change != "significant" or not candidate.endswith("batches=1")]
    arms = itertools.product([f"{candidate}+{change}" for change in changes], STARTS)
    return [(p, s, m, *arm) for s, m, p, arm in itertools.product(seeds, METHODS, problems, list(arms))]


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

    if not complete(development_jobs()):
        return "", ""
    runs = scored(rows, spec_of)
    preferred = sorted(CANDIDATES, key=lambda arm: int(arm.rpartition("=")[2]))  # stable: smaller deltas come first
    first = select(runs, preferred, "gen")
    second = second_stage(first)
    changed = list(dict.fromkeys(arm for _, _, _, arm, _ in second))
    return first, select(runs, [first, *changed], "gen") if complete(second) else ""


def print_progress(rows: Sequence[Row]) -> None:
    """Print how many runs and complete seeds each stage of the report part has."""
    finished = {tuple(row[name] for name in KEY) for row in rows}
    problems, seeds = PARTS["report"]
    table = []
    for stage, problem in itertools.product(STAGES, problems):
        made = {seed: [tuple(map(str, job)) in finished for job in report_jobs(stage, [problem], [seed])]
                for seed in seeds}  # fmt: skip
        if runs := sum(map(len, made.values())):
            counts = f"{sum(map(sum, made.values()))} of {runs}", f"{sum(map(all, made.values()))} of {len(made)}"
            table.append((stage, problem, *counts))
    print_table(("stage", "problem", "runs", "complete seeds"), table)


def print_results(part: str, rows: Sequence[Row]) -> None:
    """Print a table of all arms, and the selection (development) or progress, factors and verdicts (report)."""
    rows = [row for row in rows if row["problem"] in PARTS[part][0]]
    require_one_target(rows)
    runs = scored(rows, spec_of)
    print_arms(runs)
    print()
    print_starts(runs)
    print()
    if part == "report":
        print_factors(runs, ("decay", "restart", "interpolate"))
        print()
        print_progress(rows)
        print()
        print_verdicts(rows, spec_of, f"{PRIMARY}/gen/same")
        return
    scores = {arm: (len(of_arm), score(of_arm)) for arm, of_arm in by_arm(runs).items()}
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
    parser.add_argument("--stage", nargs="+", default=list(STAGES), choices=STAGES)
    parser.add_argument("--problem", nargs="+", choices=PARTS["report"][0], help="Problems of the report part.")
    parser.add_argument("--arm", nargs="+", help="Arms of the report part, such as curvature.")
    parser.add_argument("--seed", nargs="+", type=int, help="Seeds of the report part.")
    parser.add_argument("--rate", nargs="+", default=list(RATES), help="Further rates, if the best one is at an edge.")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--tofu", type=Path)
    parser.add_argument("--pretrained", type=Path)
    args = parser.parse_args()
    if args.table:
        print_results(args.part, read_rows(args.rows))
        return
    with tempfile.TemporaryDirectory() as name:
        folders: dict[str, dict[str, str]] = {}

        def make(jobs: Iterable[Job]) -> None:
            columns, job_run = (KEY, (*KEY, *OUTCOME)), partial(run, folders=folders)
            run_missing(args.rows, columns, jobs, job_run, processes=args.processes)

        if args.part == "development":
            make(development_jobs())
            make(second_stage(selection(read_rows(args.rows))[0]))
            return
        if not FROZEN and {"gen-trust", "gdiff"} & {*args.stage}:
            parser.error(
                "no variant of gen-trust is frozen: finish the development part, and set FROZEN to its selection, "
                "or give --stage primary others"
            )
        if args.tofu:
            write_rows(args.tofu, Path(name))
            folders["gpt2-tofu"] = {"data_dir": name}
        if args.tofu and args.pretrained:
            folders["pretrained-tofu"] = {"data_dir": name, "model_path": str(args.pretrained)}
        problems, seeds = args.problem or PARTS["report"][0], args.seed or PARTS["report"][1]
        absent = [problem for problem in problems if problem.endswith("-tofu") and problem not in folders]
        if args.problem and absent:
            parser.error(f"{', '.join(absent)}: give --tofu, and --pretrained for pretrained-tofu")
        if absent:
            print("left out without --tofu or --pretrained:", *absent, flush=True)
        problems = [problem for problem in problems if problem not in absent]
        planned = [job for stage in args.stage for job in report_jobs(stage, problems, seeds, args.rate)]
        unknown = {*(args.arm or ())} - {arm for *_, arm, _ in planned}
        if unknown:
            arms = dict.fromkeys(arm for *_, arm, _ in planned)
            parser.error(f"--arm {' '.join(sorted(unknown))}: these stages have the arms {', '.join(arms)}")
        make(job for job in planned if not args.arm or job[3] in args.arm)
        if not args.arm:
            make(restarts(read_rows(args.rows)))


if __name__ == "__main__":
    main()
