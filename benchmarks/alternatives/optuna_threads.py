"""``python optuna_threads.py PROBLEM OUT LR ...``: a grid study of Optuna with two threads of one process."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import by_hand
import optuna
import torch

optuna.logging.set_verbosity(optuna.logging.WARNING)


def main() -> None:
    path, out, *words = sys.argv[1:]
    problem, lrs = by_hand.Problem(path), [float(word) for word in words]
    torch.set_num_threads(1)
    by_hand.load(problem.target)  # transformers' lazy imports are not safe in two threads at once

    def objective(study_trial: optuna.Trial) -> tuple[float, float]:
        lr = study_trial.suggest_categorical("lr", lrs)
        scores = by_hand.trial(problem, lr)
        (Path(out) / f"{lr:g}").mkdir(parents=True, exist_ok=True)
        (Path(out) / f"{lr:g}" / "scores.json").write_text(json.dumps(scores))
        return scores["verbmem"], scores["forget_probability"]

    study = optuna.create_study(directions=["minimize", "minimize"], sampler=optuna.samplers.GridSampler({"lr": lrs}))
    study.optimize(objective, n_trials=len(lrs), n_jobs=2)


if __name__ == "__main__":
    main()
