"""``python ray_function.py PROBLEM OUT LR ...``: a plain function trainable of Ray Tune over a grid."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])


def objective(config: dict[str, Any]) -> dict[str, float]:
    import by_hand
    import torch

    torch.set_num_threads(1)
    return by_hand.trial(by_hand.Problem(config["problem"]), config["lr"])


def main() -> None:
    import ray
    from ray import tune

    path, out, *words = sys.argv[1:]
    ray.init(include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    space = {"problem": str(Path(path).resolve()), "lr": tune.grid_search([float(word) for word in words])}
    storage = str((Path(out) / "ray").resolve())
    results = tune.Tuner(objective, param_space=space, run_config=tune.RunConfig(storage_path=storage, verbose=0)).fit()
    for result in results:
        folder = Path(out) / f"{result.config['lr']:g}"
        folder.mkdir(parents=True, exist_ok=True)
        scores = {name: result.metrics[name] for name in ("verbmem", "forget_probability")}
        (folder / "scores.json").write_text(json.dumps(scores))


if __name__ == "__main__":
    main()
