"""The script that a user would write without this project: train and score a model with each learning rate.

    python trainer.py PROBLEM OUT LR [LR ...]

The problem is a JSON file that ``side_by_side.py`` writes. The file has the token ids of the forget set and the retain
set, the batches of every step, and the reference answers. The batches are the same as in the sweep, so that the script
and the sweep are comparable.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import torch
import transformers
from rouge_score.rouge_scorer import RougeScorer
from torch import Tensor

transformers.utils.logging.set_verbosity_error()
IGNORED = -100
ARGUMENTS = {
    "lr_scheduler_type": "constant",
    "max_grad_norm": 0.0,
    "weight_decay": 0.0,
    "num_train_epochs": 1,
    "report_to": [],
    "save_strategy": "no",
    "logging_strategy": "no",
    "disable_tqdm": True,
    # Item i of the data set has the batches of step i, so the Trainer's batch size is 1.
    "per_device_train_batch_size": 1,
    "remove_unused_columns": False,
    "use_cpu": True,
}


class Unlearner(transformers.Trainer):
    """A Trainer that minimises gradient difference, ``c L_R - (1 - c) L_F``, instead of the model's own loss."""

    problem: dict[str, Any]

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        forget, retain = inputs
        l_r = model(**batch(self.problem["retain"], retain)).loss
        l_f = model(**batch(self.problem["forget"], forget)).loss
        return self.problem["c"] * l_r - (1.0 - self.problem["c"]) * l_f

    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def batch(examples: list[dict[str, Any]], indices: list[int]) -> dict[str, Tensor]:
    """Return a right-padded batch. Positions that are not supervised have the label -100."""
    items = [examples[index] for index in indices]
    shape = (len(items), max(len(item["ids"]) for item in items))
    ids, mask, labels = torch.zeros(shape).long(), torch.zeros(shape).long(), torch.full(shape, IGNORED)
    for row, item in enumerate(items):
        size, prompt = len(item["ids"]), item["prompt"]
        ids[row, :size] = torch.tensor(item["ids"])
        mask[row, :size] = 1
        labels[row, prompt:size] = ids[row, prompt:size]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@torch.no_grad()
def evaluate(model: Any, tokenizer: Any, problem: dict[str, Any]) -> dict[str, float]:
    """Return two forget-set means: ROUGE-L recall of greedy answers, and token probability of reference answers."""
    model.eval()
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    forget = problem["forget"]
    probabilities, texts = list[float](), list[str]()
    longest = max(len(item["ids"]) - item["prompt"] for item in forget)
    for start in range(0, len(forget), 32):
        rows = list(range(start, min(start + 32, len(forget))))
        inputs = batch(forget, rows)
        labels = inputs.pop("labels")[:, 1:]
        logits = model(**inputs).logits[:, :-1].transpose(1, 2)
        nll = torch.nn.functional.cross_entropy(logits, labels, ignore_index=IGNORED, reduction="none")
        probabilities += [math.exp(-value) for value in (nll.sum(1) / (labels != IGNORED).sum(1)).tolist()]
        prompts = [forget[row]["ids"][: forget[row]["prompt"]] for row in rows]
        padded = tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt")
        generated = model.generate(**padded, max_new_tokens=longest, do_sample=False)
        texts += tokenizer.batch_decode(generated[:, padded["input_ids"].shape[1] :], skip_special_tokens=True)
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    pairs = zip(problem["references"], texts, strict=True)
    recalls = [scorer.score(reference, text.strip())["rougeL"].recall for reference, text in pairs]
    return {"verbmem": sum(recalls) / len(recalls), "forget_probability": sum(probabilities) / len(probabilities)}


def main() -> None:
    path, out, *lrs = sys.argv[1:]
    problem = json.loads(Path(path).read_text())
    for lr in map(float, lrs):
        model = transformers.AutoModelForCausalLM.from_pretrained(problem["target"], dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(problem["target"])
        folder = Path(out) / f"{lr:g}"
        arguments = transformers.TrainingArguments(output_dir=str(folder), learning_rate=lr, **ARGUMENTS)
        steps = problem["steps"]
        trainer = Unlearner(model=model, args=arguments, train_dataset=steps, data_collator=lambda items: items[0])
        trainer.problem = problem
        trainer.train()
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        (folder / "scores.json").write_text(json.dumps(evaluate(model, tokenizer, problem)))


if __name__ == "__main__":
    main()
