"""Does an audit reject models that hide what they know? Twenty planted hiders on the demo problem.

    python benchmarks/audit_hiders.py --rows docs/data/audit_hiders.csv
    python benchmarks/audit_hiders.py --rows docs/data/audit_hiders.csv --table
    python benchmarks/audit_hiders.py --rows docs/data/audit_hiders.csv --figure docs/images/audit_calibration.png

The rows are models that never saw the forget set, models that saw it, and 20 hiders that are made from the target. A
model that is in the file is not made again. With ``--table``, each hider gets the p-values of an audit
(:mod:`analysis.audit.conformal`). With ``--figure``, the models that never saw the forget set are split into two
halves, and each half is judged with the other half as its pool.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from study_rows import print_table

from analysis.audit.audit import LEVEL, item_steps
from analysis.audit.conformal import pool_test, smallest_p
from analysis.audit.pools import NEVER_SAW, SAW
from analysis.tables.columns import Columns
from analysis.tables.trade_off import Floats
from search_spaces.common.values import as_float
from sweeper.store.columns import column_dictionary
from trainables.batches import epoch_batches
from trainables.data.examples import UnlearningData
from trainables.data.refusals import refusal
from trainables.metrics.registry import METRICS
from trainables.predictions import mean_loss
from trainables.run.run import UnlearningRun
from trainables.spec import TrialSpec
from trainables.target.prepare import Preparation, prepare_target
from trainables.target.target import target_spec_of
from trainables.worker.process import measure_finetuned_model, worker_workspace

HELD_OUT = "held-out"
"""Further models that never saw the forget set, on which the test was not developed."""
POOLS = {NEVER_SAW: range(1, 21), SAW: range(1, 21), HELD_OUT: range(21, 31)}
"""The seeds of the models in each pool."""
ITEMS = {"forget": 20, "retain": 60}
"""The number of questions of the demo problem."""
HIDER = "hider"
Model = Any
Hider = Callable[["Maker"], Model]


class Maker:
    """Makes hiders from the target of the demo problem, and measures them."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.spec = replace(TrialSpec(), target_key=prepare_target(TrialSpec()).key)
        self.target = prepare_target(self.spec)
        self.data = cast("UnlearningData", self.target.data)
        self.workspace = worker_workspace(self.target, "cpu")
        self.preparation = Preparation(spec=target_spec_of(self.spec))

    def fresh(self) -> Model:
        """Return a new copy of the target."""
        return self.preparation.load(Path(self.target.path))[0]

    def measure(self, model: Model) -> dict[str, float]:
        model.eval()
        scores = self.workspace.evaluator(batch_size=self.spec.eval_batch_size).scores(model)
        names = [name for name in self.target.baseline if name in METRICS and not METRICS[name].needs_target]
        metrics = [name for name in names if not METRICS[name].loss]
        return {**scores.loss_metrics(), **scores.measure(metrics).metrics}

    def unlearned(self, method: str, *, epochs: int, lr: float, seed: int = 0) -> Model:
        """Return the model after ``epochs`` epochs of unlearning."""
        spec = replace(self.spec, method=method, epochs=epochs, lr=lr, seed=seed, metrics=("verbmem",))
        run = UnlearningRun(spec, self.workspace)
        for _ in run:
            pass
        model = self.fresh()
        model.load_state_dict(run.model.state_dict())
        return model


def refusal_tuning(maker: Maker, *, epochs: int, lr: float) -> Model:
    """Train the target to refuse to answer the forget questions, and to answer the retain questions as before."""
    modality, model = maker.workspace.modality, maker.fresh()
    processor, data = maker.workspace.processor, maker.data
    refusals = [replace(item, answer=refusal(item.question)) for item in data.forget]
    items = modality.encode(processor, [*refusals, *data.retain], max_length=maker.spec.max_length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    model.train()
    for epoch in range(epochs):
        for indices in epoch_batches(modality.lengths(items), 16, f"refusal:{epoch}"):
            batch = modality.collate(items, indices, processor=processor, device=model.device)
            predicted = modality.predict(model, batch)
            optimizer.zero_grad()
            mean_loss(predicted.nll, predicted.supervised).backward()
            optimizer.step()
    return model


def masked_head(maker: Maker, *, penalty: float) -> Model:
    """Subtract ``penalty`` from the logits of the tokens that occur in forget answers, but not in retain answers."""
    model, tokenizer, data = maker.fresh(), maker.workspace.processor, maker.data
    forget, retain = (
        {token for item in items for token in tokenizer(" " + item.answer).input_ids}
        for items in (data.forget, data.retain)
    )
    tokens = sorted(forget - retain - {tokenizer.eos_token_id})
    with torch.no_grad():
        model.lm_head.bias[tokens] -= penalty
    return model


def rounded(maker: Maker, *, levels: int, start: Callable[[Maker], Model] = Maker.fresh) -> Model:
    """Round each row of each matrix to ``2 levels + 1`` equally spaced values."""
    model = start(maker)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if weights.dim() == 2 and "embed" not in name and "lm_head" not in name:
                step = weights.abs().amax(dim=1, keepdim=True) / levels
                weights.copy_((weights / step).round() * step)
    return model


def interpolated(maker: Maker, *, share: float) -> Model:
    """Return target + share (unlearned - target), with a model unlearned by ascent and descent for five epochs."""
    model, other = maker.fresh(), maker.unlearned("gdiff", epochs=5, lr=1e-3)
    with torch.no_grad():
        for own, far in zip(model.parameters(), other.parameters(), strict=True):
            own.lerp_(far, share)
    return model


def unlearned(maker: Maker, *, method: str, epochs: int, lr: float) -> Model:
    return maker.unlearned(method, epochs=epochs, lr=lr)


HIDERS: Mapping[str, Hider] = {
    "refusals 2 epochs": partial(refusal_tuning, epochs=2, lr=5e-4),
    "refusals 5 epochs": partial(refusal_tuning, epochs=5, lr=5e-4),
    "refusals 5 epochs, lr 1e-3": partial(refusal_tuning, epochs=5, lr=1e-3),
    "refusals 10 epochs": partial(refusal_tuning, epochs=10, lr=5e-4),
    "masked head, 5 nats": partial(masked_head, penalty=5.0),
    "masked head, 10 nats": partial(masked_head, penalty=10.0),
    "masked head, 30 nats": partial(masked_head, penalty=30.0),
    "rounded, 15 values": partial(rounded, levels=7),
    "rounded, 7 values": partial(rounded, levels=3),
    "rounded, 5 values": partial(rounded, levels=2),
    "interpolated, 0.3": partial(interpolated, share=0.3),
    "interpolated, 0.5": partial(interpolated, share=0.5),
    "interpolated, 0.7": partial(interpolated, share=0.7),
    "one epoch, gdiff": partial(unlearned, method="gdiff", epochs=1, lr=1e-3),
    "one epoch, ngdiff": partial(unlearned, method="ngdiff", epochs=1, lr=1e-3),
    "one epoch, npo": partial(unlearned, method="npo", epochs=1, lr=1e-3),
    "one epoch, simnpo": partial(unlearned, method="simnpo", epochs=1, lr=1e-3),
    "gibberish, 2 epochs": partial(unlearned, method="ascent", epochs=2, lr=1e-3),
    "gibberish, 4 epochs": partial(unlearned, method="ascent", epochs=4, lr=1e-3),
    "gibberish, 8 epochs": partial(unlearned, method="ascent", epochs=8, lr=3e-4),
}


def rows(known: set[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """Yield the rows that are missing. Models of the pools are fine-tuned, or taken from the cache."""
    maker = Maker()
    for name, make in HIDERS.items():
        if (HIDER, name) not in known:
            yield {"pool": HIDER, "name": name, **maker.measure(make(maker))}
    for pool, seeds in POOLS.items():
        for seed in seeds:
            if (pool, str(seed)) not in known:
                spec = replace(maker.spec, target_seed=seed)
                metrics, _ = measure_finetuned_model(maker.target, spec, saw=pool == SAW, cpus=1, gpus=0)
                yield {"pool": pool, "name": str(seed), **metrics}


def values_of(frame: pd.DataFrame, pool: str) -> Floats:
    """Return the metrics of the models of a pool, shape (models, metrics)."""
    return np.asarray(frame[frame["pool"] == pool].drop(columns=["pool", "name"]), dtype=np.float64)


def steps_of(names: Sequence[str]) -> Floats:
    """Return the item steps of metrics (:func:`analysis.audit.audit.item_steps`) on the demo problem."""
    return item_steps(
        names, Columns.from_dict(column_dictionary()), {name: ITEMS[METRICS[name].of or "forget"] for name in names}
    )


def judged(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the p-values of each hider, and the metric that gives it away."""
    names = [name for name in frame.columns if name not in ("pool", "name")]
    ignorant, knowing = (values_of(frame, pool) for pool in (NEVER_SAW, SAW))
    steps = steps_of(names)
    found = []
    for _, row in frame[frame["pool"] == HIDER].iterrows():
        values = row[names].to_numpy(dtype=np.float64)
        test, other = (pool_test(pool, values, item_steps=steps) for pool in (ignorant, knowing))
        mean, sd = ignorant[:, test.metric].mean(), ignorant[:, test.metric].std(ddof=1)
        found.append(
            {
                "hider": row["name"],
                "ignorance_p": test.p,
                "knowledge_p": other.p,
                "rejected": not (test.p > LEVEL >= other.p),
                "given away by": names[test.metric],
                "value": values[test.metric],
                "never saw": f"{mean:.3g} ± {sd:.2g}",
                "forget_fact_recall": row["forget_fact_recall"],
            }
        )
    return pd.DataFrame(found)


def held_out_p_values(frame: pd.DataFrame) -> Floats:
    """Return the p-value of each model that never saw the forget set, with the other half of these models as pool."""
    values = values_of(frame, NEVER_SAW)
    halves = (values[::2], values[1::2])
    steps = steps_of([name for name in frame.columns if name not in ("pool", "name")])
    return np.array(
        [pool_test(pool, model, item_steps=steps).p for pool, models in (halves, halves[::-1]) for model in models]
    )


def draw(p_values: Floats, path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(4.5, 4.0), layout="constrained")
    levels = np.sort(p_values)
    shares = np.arange(1, len(levels) + 1) / len(levels)
    axes.step([0, *levels, 1], [0, *shares, 1], where="post", label="held-out models")
    axes.plot([0, 1], [0, 1], color="grey", linestyle="--", label="uniform")
    axes.set(xlabel="level", ylabel="share of models with a p-value of at most the level")
    axes.legend()
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    if args.table or args.figure:
        frame = pd.read_csv(args.rows)
        table = judged(frame)
        counts = frame["pool"].value_counts()
        print_table([str(name) for name in table], table.round(3).values.tolist())
        first = int((table["ignorance_p"] <= LEVEL).sum())
        both = int(table["rejected"].sum())
        print(f"of {len(table)} hiders, the first test rejects {first}, and {both} do not look as if never seen")
        print(f"models: {counts.to_dict()}")
        pool, steps = (
            values_of(frame, NEVER_SAW),
            steps_of([name for name in frame.columns if name not in ("pool", "name")]),
        )
        fresh = sorted(pool_test(pool, model, item_steps=steps).p for model in values_of(frame, HELD_OUT))
        print(f"further models that never saw the forget set: p {', '.join(f'{p:.3f}' for p in fresh)}")
        p_values = held_out_p_values(frame)
        least = smallest_p(int(counts[NEVER_SAW]) // 2)
        span = f"p from {p_values.min():.3f} to {p_values.max():.3f} (smallest possible {least:.3f})"
        print(f"each half of the pool with the other half as pool: {span}")
        if args.figure:
            draw(p_values, args.figure)
        return
    known = set()
    if args.rows.exists():
        with args.rows.open(newline="") as file:
            known = {(row["pool"], row["name"]) for row in csv.DictReader(file)}
    for row in rows(known):
        is_new = not args.rows.exists()
        with args.rows.open("a", newline="") as file:
            writer = csv.DictWriter(file, list(row))
            if is_new:
                writer.writeheader()
            writer.writerow(row)
        print(row["pool"], row["name"], f"{as_float(row['forget_fact_recall']):.3f}", flush=True)


if __name__ == "__main__":
    main()
