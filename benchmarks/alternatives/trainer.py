"""A ``transformers.Trainer`` per learning rate.

python trainer.py PROBLEM OUT LR [LR ...]              train and evaluate each rate, in this process
python trainer.py PROBLEM OUT LR --train-only          train and save
python trainer.py PROBLEM OUT LR --evaluate-only       load and evaluate the saved model
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import by_hand
import torch
import transformers

transformers.utils.logging.set_verbosity_error()


class Steps(torch.utils.data.Dataset[tuple[list[int], list[int]]]):
    """A data set whose item i holds the batches of step i, so that the Trainer's batch size is 1."""

    def __init__(self, problem: by_hand.Problem) -> None:
        self.steps = problem.steps

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: int) -> tuple[list[int], list[int]]:
        return self.steps[index]


class Unlearner(transformers.Trainer):
    """A Trainer that minimises gradient difference instead of the model's own loss."""

    problem: by_hand.Problem

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        return by_hand.gradient_difference(model, self.problem, inputs["forget"], inputs["retain"])

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def train(problem: by_hand.Problem, lr: float, out: Path) -> Any:
    model, _ = by_hand.load(problem.target)
    arguments = transformers.TrainingArguments(
        output_dir=str(out),
        learning_rate=lr,
        lr_scheduler_type="constant",
        per_device_train_batch_size=1,
        num_train_epochs=1,
        max_grad_norm=0.0,
        weight_decay=0.0,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        remove_unused_columns=False,
        use_cpu=True,
    )
    trainer = Unlearner(
        model=model,
        args=arguments,
        train_dataset=Steps(problem),
        data_collator=lambda items: {"forget": items[0][0], "retain": items[0][1]},
    )
    trainer.problem = problem
    trainer.train()
    return model


def main() -> None:
    path, out, *words = sys.argv[1:]
    problem, lrs = by_hand.Problem(path), [float(word) for word in words if not word.startswith("--")]
    for lr in lrs:
        folder = Path(out) / f"{lr:g}"
        if "--evaluate-only" in words:
            model, tokenizer = by_hand.load(str(folder))
        else:
            model, (_, tokenizer) = train(problem, lr, folder), by_hand.load(problem.target)
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
        if "--train-only" not in words:
            (folder / "scores.json").write_text(json.dumps(by_hand.evaluate(model, tokenizer, problem)))


if __name__ == "__main__":
    main()
