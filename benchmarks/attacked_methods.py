"""What do models tell after attacks that different methods unlearned on the default model and data?

    python benchmarks/attacked_methods.py --rows FILE.csv                         # makes the missing runs, a row each
    python benchmarks/attacked_methods.py --rows docs/data/attacked_methods.csv --table

Each method runs once with its best rate in docs/data/methods_at_their_best.csv, without Ray, and its last model is
attacked. The target and a model that was trained on the retain set only (never saw the forget set) are attacked alike.
The row has all metrics of the attacks, and the seconds of each attack and of the measurement without attacks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from demo_methods import BEST_RATES
from study_rows import print_table, read_rows, run_missing, study_parser

from trainables.metrics.registry import SETS
from trainables.spec import TrialSpec

METHODS = ("gdiff", "ngdiff", "npo+ngdiff", "undial+ngdiff", "simnpo+ngdiff", "dpo+ngdiff", "rmu")
CONTROLS = ("target", "never saw")
KEY = ("method", "seed")
BASE = ("forget_fact_recall", "retain_fact_recall")
ATTACKED = ("quantize", "sample", "paraphrase", "prefix", "combine", "relearn", "benign", "barrier")
SECONDS = tuple(f"seconds_{name}" for name in ("default", *ATTACKED))
VALUES = tuple(name for attack in ATTACKED for name in SETS[attack] if "accuracy" not in name)
COLUMNS = (*KEY, "lr", *BASE, *VALUES, *SECONDS)
_AFTER = ("relearn", "relearn_same_1", "relearn_same_2", "relearn_same", "benign", "benign_syntax")
SHOWN = (
    "forget_fact_recall", "fact_recall_after_nf4", "leak_at_k", "fact_recall_after_prefix",
    *(f"fact_recall_after_{name}" for name in _AFTER),
    "retain_fact_recall",
)  # fmt: skip
"""The columns of the table in docs/robustness.md."""
EPOCHS = 10


def run(method: str, seed: str) -> Iterator[dict[str, object]]:
    """Unlearn with one method, or load a control, and yield its row."""
    import torch

    from trainables.run.run import UnlearningRun
    from trainables.target.prepare import Preparation, prepare_target
    from trainables.target.target import attack_settings, target_spec_of
    from trainables.worker.process import worker_workspace

    torch.set_num_threads(1)
    is_control = method in CONTROLS
    rate = 5e-4 if "+" in method else float(BEST_RATES.get(method, "1e-3"))
    spec = TrialSpec(
        method="gdiff" if is_control else method, lr=rate, seed=int(seed), epochs=EPOCHS, eval_every=EPOCHS,
        metrics=("forget_fact_recall",),
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
    values: dict[str, object] = {"lr": "" if is_control else f"{rate:g}"}
    for name, metrics in (("default", BASE), *((attack, (attack,)) for attack in ATTACKED)):
        started = time.perf_counter()
        found = scores.measure(metrics).metrics
        values |= {column: f"{value:.4g}" for column, value in found.items() if column in COLUMNS and value == value}
        values[f"seconds_{name}"] = f"{time.perf_counter() - started:.2f}"
    yield values


def main() -> None:
    arguments = study_parser(__doc__).parse_args()
    if not arguments.table:
        planned = [(method, "0") for method in (*CONTROLS, *METHODS)]
        run_missing(arguments.rows, (KEY, COLUMNS), planned, run)
    rows = read_rows(arguments.rows)
    print_table(("model", *SHOWN), [(row["method"], *(row[name] for name in SHOWN)) for row in rows])


if __name__ == "__main__":
    main()
