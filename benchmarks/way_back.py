"""What does a model know between the target and the last weights of a run (interpolation, docs/autolr.md)?

    python benchmarks/way_back.py --rows FILE.csv [--model tiny-phi tiny-mistral] [--seed 54 57]
    python benchmarks/way_back.py --rows FILE.csv --model-path DIR --data-dir DIR --seed 103
    python benchmarks/way_back.py --rows docs/data/way_back_development.csv --figure FILE.png

Interpolates between the target and the last weights of each run, and appends a row for each run and each share of the
way. The runs use the rule ``curvature``. ``answers`` is the mean share of a retained answer that precedes the first
wrong token of greedy decoding; interpolation uses this measure. ``forgot`` is one minus the same share on the forget
set.
"""

from __future__ import annotations

import argparse
import itertools
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from study_rows import read_rows, run_missing

from trainables.spec import TrialSpec

KEY = ("model", "seed", "method")
COLUMNS = (
    *(*KEY, "share", "retain_loss_rise", "forget_loss", "forget_loss_capped", "answers", "forgot"),
    *("utility", "verbmem"),
)
SHARES = 16
METHODS = {"gdiff": (("c", 0.5),), "ngdiff": (), "npo+ngdiff": (), "pcgrad": ()}


def rows_of(spec: TrialSpec) -> list[dict[str, object]]:
    """Evaluate weights on the line between the target and the last weights of one run, and return the rows."""
    from one_run import unlearn

    from trainables.metrics.losses import agreement
    from trainables.run.run_state import load_weights, weights_between, weights_state

    run, _, workspace = unlearn(spec)
    assert run._initial_state is not None
    final_weights = weights_state(run.model)
    evaluator = workspace.evaluator(batch_size=spec.eval_batch_size)
    rows: list[dict[str, object]] = []
    initial_loss = 0.0
    for share in (index / SHARES for index in range(SHARES + 1)):
        load_weights(weights_between(run._initial_state, final_weights, share), run.model)
        scores = evaluator.scores(run.model)
        losses, metrics = scores.loss_metrics(), scores.measure(("utility", "verbmem")).metrics
        initial_loss = losses["retain_loss"] if not rows else initial_loss
        derived = {
            "retain_loss_rise": losses["retain_loss"] - initial_loss,
            "answers": scores.retain_agreement,
            "forgot": 1.0 - agreement(scores.forget_losses),
        }
        row = {"share": share, **losses, **metrics, **derived}
        rows.append({column: row[column] for column in COLUMNS[len(KEY) :]})
    return rows


def draw(rows: list[dict[str, str]], path: Path) -> None:
    """Draw a panel per model with utility and verbmem between the target and the last weights of each run."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    runs: defaultdict[str, defaultdict[tuple[str, str], list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        runs[row["model"]][row["seed"], row["method"]].append(row)
    figure, panels = plt.subplots(1, len(runs), figsize=(3.6 * len(runs), 3.4), sharey=True, layout="constrained")
    for panel, (model, runs_of_model) in zip([panels] if len(runs) == 1 else panels, runs.items(), strict=True):
        for run_rows in runs_of_model.values():
            shares = [float(row["share"]) for row in run_rows]
            target_utility = float(run_rows[0]["utility"])
            panel.plot(shares, [float(row["utility"]) / target_utility for row in run_rows], color="#2060a0", alpha=0.6)
            panel.plot(shares, [float(row["verbmem"]) for row in run_rows], color="#c03028", alpha=0.6)
        panel.plot([], [], color="#2060a0", label="utility, a share of the target's")
        panel.plot([], [], color="#c03028", label="verbmem")
        panel.set(title=f"{model}, {len(runs_of_model)} runs")
        panel.set_ylim(-0.03, 1.1)
    figure.supxlabel("share of the way from the target to the last weights", fontsize=10)
    panel.legend(loc="center left", fontsize=8, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=Path("runs/way_back.csv"))
    parser.add_argument("--model", nargs="+", default=["tiny-phi", "tiny-mistral"])
    parser.add_argument("--model-path", help="A folder with a real model, in place of --model.")
    parser.add_argument("--data-dir", help="A folder with the data for --model-path, as jsonl files.")
    parser.add_argument("--seed", nargs="+", type=int, default=[54, 57])
    parser.add_argument("--method", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--figure", type=Path, help="Draw the results in the file and run nothing.")
    args = parser.parse_args()
    if args.figure:
        draw(read_rows(args.rows), args.figure)
        return
    common = TrialSpec(lr=3e-4, auto_lr="curvature", auto_lr_log_forget=False, batch_size=4, epochs=15)
    if args.model_path:
        recipe: dict[str, Any] = {"target_epochs": 15, "target_lr": 1e-4, "target_batch_size": 4}
        recipe |= {"lora_rank": 16, "batch_size": 2}
        args.model = [Path(args.model_path).name]
        common = replace(common, model_path=args.model_path, dataset="jsonl", data_dir=args.data_dir, **recipe)
        common = replace(common, epochs=4, eval_every=2, auto_lr_every=5)

    def run(model: str, seed: int, method: str) -> list[dict[str, object]]:
        spec = replace(common, seed=seed, method=method, options=METHODS[method])
        return rows_of(spec if args.model_path else replace(spec, model=model))

    run_missing(args.rows, (KEY, COLUMNS), itertools.product(args.model, args.seed, args.method), run)


if __name__ == "__main__":
    main()
