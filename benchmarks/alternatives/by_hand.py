"""Shared parts of the scripts that do not use this project: data, the two losses, and the scores at the end.

The problem is a JSON file that ``side_by_side.py`` writes. It has the token ids of the forget and retain set, the
batches of every step, and the reference answers. The batches are the same as in the sweep, so that the numbers of both
sides are comparable.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

IGNORED = -100


class Problem:
    """The data to train on and the items to score."""

    def __init__(self, path: str) -> None:
        content = json.loads(Path(path).read_text())
        self.target: str = content["target"]
        self.forget: list[dict[str, Any]] = content["forget"]
        self.retain: list[dict[str, Any]] = content["retain"]
        self.steps: list[tuple[list[int], list[int]]] = content["steps"]
        self.references: list[str] = content["references"]
        self.c: float = content["c"]

    def batch(self, side: str, indices: list[int]) -> dict[str, Tensor]:
        """Return a right-padded batch. Positions that are not supervised have the label -100."""
        items = [getattr(self, side)[index] for index in indices]
        width = max(len(item["ids"]) for item in items)
        ids, mask = (
            torch.zeros((len(items), width), dtype=torch.long),
            torch.zeros((len(items), width), dtype=torch.long),
        )
        labels = torch.full((len(items), width), IGNORED)
        for row, item in enumerate(items):
            size, prompt = len(item["ids"]), item["prompt"]
            ids[row, :size] = torch.tensor(item["ids"])
            mask[row, :size] = 1
            labels[row, prompt:size] = ids[row, prompt:size]
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def gradient_difference(model: Any, problem: Problem, forget: list[int], retain: list[int]) -> Tensor:
    """Return ``c L_R - (1 - c) L_F`` on two batches, with the loss that transformers computes from labels."""
    l_r = model(**problem.batch("retain", retain)).loss
    l_f = model(**problem.batch("forget", forget)).loss
    return problem.c * l_r - (1.0 - problem.c) * l_f


def train(model: Any, problem: Problem, lr: float) -> None:
    """Train in a plain loop."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
    model.train()
    for forget, retain in problem.steps:
        gradient_difference(model, problem, forget, retain).backward()
        optimizer.step()
        optimizer.zero_grad()


@torch.no_grad()
def evaluate(model: Any, tokenizer: Any, problem: Problem) -> dict[str, float]:
    """Return the means of the ROUGE-L recall of greedy answers and of the answers' token probability (forget set)."""
    from rouge_score.rouge_scorer import RougeScorer

    model.eval()
    probabilities: list[float] = []
    texts: list[str] = []
    longest = max(len(item["ids"]) - item["prompt"] for item in problem.forget)
    for start in range(0, len(problem.forget), 32):
        rows = list(range(start, min(start + 32, len(problem.forget))))
        batch = problem.batch("forget", rows)
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
        nll = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), batch["labels"][:, 1:], ignore_index=IGNORED, reduction="none"
        )
        counts = (batch["labels"][:, 1:] != IGNORED).sum(1)
        probabilities += [math.exp(-value) for value in (nll.sum(1) / counts).tolist()]
        prompts = [problem.forget[row]["ids"][: problem.forget[row]["prompt"]] for row in rows]
        padded = tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt")
        said = model.generate(**padded, max_new_tokens=longest, do_sample=False)
        texts += tokenizer.batch_decode(said[:, padded["input_ids"].shape[1] :], skip_special_tokens=True)
    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    recalls = [
        scorer.score(reference, text.strip())["rougeL"].recall
        for reference, text in zip(problem.references, texts, strict=True)
    ]
    return {"verbmem": sum(recalls) / len(recalls), "forget_probability": sum(probabilities) / len(probabilities)}


def load(folder: str) -> tuple[Any, Any]:
    """Return a model and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model, tokenizer


def trial(problem: Problem, lr: float) -> dict[str, float]:
    """Run one trial from the target to its scores."""
    model, tokenizer = load(problem.target)
    train(model, problem, lr)
    return evaluate(model, tokenizer, problem)
