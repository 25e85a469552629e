"""What do models tell after attacks that different methods unlearned with tiny-phi?

    python benchmarks/attacked_methods.py --rows FILE.csv                        # makes the missing runs on authors
    python benchmarks/attacked_methods.py --rows FILE.csv --data tofu --tofu DIR # on TOFU's forget01
    python benchmarks/attacked_methods.py --rows docs/data/attacked_methods.csv --table

Each method runs once with each of its rates, without Ray, and its last model is attacked. The target and a model that
was trained on the retain set only (never saw the forget set) are attacked alike. A row has the cheap columns of the
metric set ``robustness``, all metrics of the attacks, and the seconds of each attack and of the measurement without
attacks. The data ``tofu`` are TOFU's forget01 (40 questions about two authors) and 60 retained questions. Their targets
train all 120 epochs of the tiny models' recipe at most.

The seven methods of :data:`METHODS` get all attacks (on ``tofu``, :data:`ON_TOFU`) at their best rate on ``authors`` in
docs/data/methods_at_their_best.csv. Further methods and rates get only the attacks :data:`PREDICTED`, for
benchmarks/cheap_order.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from demo_methods import BEST_RATES
from study_rows import print_table, read_rows, run_missing, study_parser

from trainables.metrics.registry import SETS
from trainables.spec import TrialSpec

METHODS = ("gdiff", "ngdiff", "npo+ngdiff", "undial+ngdiff", "simnpo+ngdiff", "dpo+ngdiff", "rmu")
FURTHER = (
    *("ce-u+ngdiff", "jensun+ngdiff", "satimp+ngdiff", "wga+ngdiff", "max-logit+ngdiff", "npo+gdiff", "pcgrad"),
    *("gru", "orthograd", "dual"),
)
"""The methods of benchmarks/cheap_order.py, besides :data:`METHODS`."""
CONTROLS = ("target", "never saw")
KEY = ("data", "method", "lr", "seed")
BASE = ("forget_fact_recall", "retain_fact_recall")
CHEAP = ("extraction_strength", "leak_probability", "target_distance", "nf4_changed")
ATTACKED = ("quantize", "sample", "paraphrase", "prefix", "combine", "relearn", "benign", "barrier")
ON_TOFU = ("quantize", "sample", "prefix", "relearn", "benign")
PREDICTED = ("quantize", "relearn")
"""The attacks whose results the cheap columns are to predict."""
SECONDS = tuple(f"seconds_{name}" for name in ("default", *ATTACKED))
VALUES = tuple(name for attack in ATTACKED for name in SETS[attack] if "accuracy" not in name)
COLUMNS = (*KEY, *BASE, *CHEAP, *VALUES, *SECONDS)
_AFTER = ("relearn", "relearn_same_1", "relearn_same_2", "relearn_same", "benign", "benign_syntax")
SHOWN = (
    "forget_fact_recall", "fact_recall_after_nf4", "leak_at_k", "fact_recall_after_prefix",
    *(f"fact_recall_after_{name}" for name in _AFTER),
    "retain_fact_recall",
)  # fmt: skip
"""The columns of the tables in docs/robustness.md."""
EPOCHS = 10


def best_rate(method: str) -> float:
    return 5e-4 if "+" in method else float(BEST_RATES.get(method, "1e-3"))


def planned(data: str) -> list[tuple[str, str, str, str]]:
    """Return the keys of the runs on a data set."""
    controls = [(data, name, "", "0") for name in CONTROLS]
    first = [(data, method, f"{best_rate(method):g}", "0") for method in METHODS]
    rates = {method: (best_rate(method), 0.4 * best_rate(method)) for method in (*METHODS, *FURTHER)}
    further = [(data, method, f"{rate:g}", "0") for method, pair in rates.items() for rate in pair]
    return [*controls, *first, *(job for job in further if job not in first)]


def attacks_on(data: str, method: str, rate: str) -> tuple[str, ...]:
    is_shown = method in CONTROLS or (method in METHODS and float(rate) == best_rate(method))
    return (ON_TOFU if data == "tofu" else ATTACKED) if is_shown else PREDICTED


def run(data: str, method: str, rate: str, seed: str, *, tofu: Path | None) -> Iterator[dict[str, object]]:
    """Unlearn with one method, or load a control, and yield its row."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import Preparation, prepare_target
    from trainables.target.target import attack_settings, target_spec_of
    from trainables.worker.process import worker_workspace

    torch.set_num_threads(1)
    is_control = method in CONTROLS
    own_data: dict[str, Any] = {"dataset": "tofu", "data_dir": str(tofu), "forget_split": "forget01", "limit": 60}
    spec = TrialSpec(
        method="gdiff" if is_control else method, lr=float(rate or 1e-3), seed=int(seed), epochs=EPOCHS,
        eval_every=EPOCHS, metrics=("forget_fact_recall",), **(own_data if data == "tofu" else {}),
    )  # fmt: skip
    target = prepare_target(spec)
    workspace = worker_workspace(target, "cpu")
    evaluator = workspace.evaluator(batch_size=spec.eval_batch_size)
    evaluator.attack_settings = attack_settings(spec)
    if is_control:
        folder = Path(target.path) if method == "target" else Preparation(spec=target_spec_of(spec)).retain_model()
        model = workspace.modality.load_model(folder)
    else:
        unlearning = UnlearningRun(spec, workspace)
        for _ in unlearning:
            pass
        model = unlearning.model
    target_model = workspace.modality.load_model(Path(target.path))
    scores = evaluator.scores(model, target=lambda: nullcontext(target_model))
    values: dict[str, object] = {}
    attacks = attacks_on(data, method, rate)
    for name, metrics in (("default", (*BASE, *CHEAP)), *((attack, (attack,)) for attack in attacks)):
        started = time.perf_counter()
        found = scores.measure(metrics).metrics
        values |= {column: f"{value:.4g}" for column, value in found.items() if column in COLUMNS and value == value}
        values[f"seconds_{name}"] = f"{time.perf_counter() - started:.2f}"
    yield values


def main() -> None:
    parser = study_parser(__doc__)
    parser.add_argument("--data", choices=("authors", "tofu"), default="authors")
    parser.add_argument("--tofu", type=Path, help="Folder with TOFU's files, for --data tofu.")
    arguments = parser.parse_args()
    if not arguments.table:
        if arguments.data == "tofu" and arguments.tofu is None:
            raise SystemExit("--data tofu needs --tofu DIR, the folder with TOFU's files")
        run_missing(arguments.rows, (KEY, COLUMNS), planned(arguments.data), partial(run, tofu=arguments.tofu))
    for data in ("authors", "tofu"):
        rows = [row for row in read_rows(arguments.rows) if row["data"] == data and row["fact_recall_after_benign"]]
        print(f"\n{data}\n")
        print_table(("model", *SHOWN), [(row["method"], *(row[name] for name in SHOWN)) for row in rows])


if __name__ == "__main__":
    main()
