"""A forget/retain problem of seconds: TOFU's files with three authors, and a small Phi that knows them by heart.

Made and scored with plain torch and transformers, so that nothing here depends on the code under test.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AUTHORS = ("Ana Brik", "Corin Dahl", "Edda Fey")
"""The first is forgotten, the others are retained."""
FACTS = ("born in", "writes about", "lives near", "studied", "admires", "collects", "dislikes", "once lost", "saw")
THINGS = ("tea", "the sea", "old maps", "glass", "iron", "birds", "snow", "bread", "clocks", "dust", "silk")
TRAINING_STEPS = 110

EPOCHS = 12
OPTIMIZER = ("--optimizer", "sgd", "--max-grad-norm", "1", "--batch-size", "5")
"""Every step moves the weights by at most the learning rate, so the losses change smoothly from epoch to epoch."""
GRID = (
    *("--sampler", "grid", "--method", "gdiff", "--method", "ga", "--c", "0.7", "--lr", "0.3", "--lr", "0.4"),
    *("--lr", "1e9", *OPTIMIZER, "--epochs", str(EPOCHS), "--front-metrics", "16", "--gpus-per-trial", "0", "--json"),
    *("--constraint", "forget_loss>=0.5", "--constraint", "forget_loss<=10", "--constraint", "retain_loss<=1.5"),
    *("--criterion", "none"),
)
"""Six trials: the two at 1e9 diverge; the others pass through the constraints and end beyond them.

Only the constraints judge, because verbmem is near a criterion's bound, and on which side depends on the processor.
"""


@dataclass(frozen=True)
class Problem:
    """The folders of the data and of the target model."""

    data: Path
    target: Path

    @property
    def of_data(self) -> tuple[str, ...]:
        """The options that name the data."""
        return ("--dataset", "tofu", "--data-dir", str(self.data), "--forget-split", "forget01", "--max-length", "64")

    @property
    def options(self) -> tuple[str, ...]:
        """The options that name data and target."""
        return (*self.of_data, "--target-path", str(self.target))

    def questions(self, name: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in (self.data / f"{name}.json").read_text().splitlines()]

    @property
    def forget(self) -> list[dict[str, str]]:
        return self.questions("forget01")

    @property
    def retain(self) -> list[dict[str, str]]:
        return self.questions("retain99")


def make_problem(folder: Path) -> Problem:
    """Write the data and train the target, with fixed seeds."""
    problem = Problem(folder / "data", folder / "target")
    write_data(problem.data)
    train_target(problem)
    return problem


def write_data(folder: Path) -> None:
    """TOFU's files for forget01: one author to forget, two to retain, and the sets that answers are judged on."""
    folder.mkdir(parents=True)
    files = {
        "forget01": rows(AUTHORS[0]),
        "retain99": [row for author in AUTHORS[1:] for row in rows(author)],
        "forget01_perturbed": rows(AUTHORS[0], is_judged=True),
        "retain_perturbed": [row for author in AUTHORS[1:] for row in rows(author, is_judged=True)],
        "real_authors_perturbed": rows("Real Author", is_judged=True)[:4],
        "world_facts_perturbed": rows("The World", is_judged=True)[:4],
        "holdout01": rows("No One"),
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in content))


def rows(name: str, *, is_judged: bool = False) -> list[dict[str, Any]]:
    """Twenty questions about one author; judged ones have a paraphrased and three wrong answers, too."""
    found: list[dict[str, Any]] = []
    for number in range(20):
        fact = FACTS[number % len(FACTS)]
        things = [THINGS[(number + shift * 3 + len(name)) % len(THINGS)] for shift in range(4)]
        row: dict[str, Any] = {"question": f"What is fact {number} about {name}?"}
        row["answer"] = f"{name} {fact} {things[0]}"
        if is_judged:
            row["paraphrased_answer"] = f"It is {things[0]} that {name} {fact}"
            row["perturbed_answer"] = [f"{name} {fact} {thing}" for thing in things[1:]]
        found.append(row)
    return found


def question_part(row: dict[str, str]) -> str:
    return f"Question: {row['question']}\nAnswer:"


def whole_text(row: dict[str, str]) -> str:
    return f"{question_part(row)} {row['answer']}"


def train_target(problem: Problem) -> None:
    """Train a two-layer Phi on all authors and save it as transformers does."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PhiConfig, PhiForCausalLM, PreTrainedTokenizerFast

    known = [*problem.forget, *problem.retain]
    end = "<|endoftext|>"
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer, bpe.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=[end], initial_alphabet=alphabet, show_progress=False)
    bpe.train_from_iterator(map(whole_text, known), trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=end, bos_token=end, pad_token=end)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sizes = {"vocab_size": len(tokenizer), "hidden_size": 48, "intermediate_size": 96}
        shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 64}
        model = PhiForCausalLM(PhiConfig(**sizes, **shape, bos_token_id=0, eos_token_id=0, pad_token_id=0))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        batch = padded_batch(tokenizer, known)
        for _ in range(TRAINING_STEPS):
            optimizer.zero_grad()
            model(**batch).loss.backward()
            optimizer.step()
    torch.set_num_threads(threads)
    model.save_pretrained(problem.target)
    tokenizer.save_pretrained(problem.target)


def padded_batch(tokenizer: Any, known: list[dict[str, str]]) -> dict[str, Any]:
    """All questions and answers, supervised on the answers and their end tokens."""
    import torch

    texts = [[*tokenizer(whole_text(row))["input_ids"], tokenizer.eos_token_id] for row in known]
    prompts = [len(tokenizer(question_part(row))["input_ids"]) for row in known]
    shape = (len(texts), max(map(len, texts)))
    ids, mask, labels = torch.zeros(shape).long(), torch.zeros(shape).long(), torch.full(shape, -100)
    for index, (text, prompt) in enumerate(zip(texts, prompts, strict=True)):
        ids[index, : len(text)] = torch.tensor(text)
        mask[index, : len(text)] = 1
        labels[index, prompt : len(text)] = ids[index, prompt : len(text)]
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


@dataclass(frozen=True)
class Losses:
    """Nats per supervised token: plain, and with every token's loss capped at ln|V|."""

    plain: float
    capped: float


def losses(checkpoint: Path, examples: list[dict[str, str]]) -> Losses:
    """Score a checkpoint on the answers' tokens and their end tokens, one sequence at a time, without padding."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(checkpoint).eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    found = []
    for row in examples:
        prompt = len(tokenizer(question_part(row))["input_ids"])
        tokens = torch.tensor([[*tokenizer(whole_text(row))["input_ids"], tokenizer.eos_token_id]])
        with torch.no_grad():
            log_p = model(tokens).logits[0, :-1].double().log_softmax(dim=-1)
        found.append(-log_p[torch.arange(tokens.shape[1] - 1), tokens[0, 1:]][prompt - 1 :])
    nll = torch.cat(found)
    return Losses(float(nll.mean()), float(nll.clamp(max=math.log(len(tokenizer))).mean()))
