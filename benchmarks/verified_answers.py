"""How much time is saved if a greedy answer is generated only from the first token that differs from the reference?

    python benchmarks/verified_answers.py [TOFU]

Also compares larger generation batches with the evaluation batch size. Without TOFU's folder, the script uses the
default target and data; with the folder, it uses tiny-phi on forget01 and 360 retain rows. Both variants answer the
forget questions and the retain sample, with the target and with models after 1 and 3 epochs of gradient difference at
1e-3. The forward pass for the losses is not counted, because a trial needs this pass anyway. Prints seconds, ratios,
and the number of equal texts.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import torch

from trainables.run.run import UnlearningRun
from trainables.run.workspace import Workspace
from trainables.scoring.evaluation_sets import EvaluationSets
from trainables.scoring.text_scorer import TextScorer
from trainables.spec import TrialSpec
from trainables.target.prepare import prepare_target
from trainables.text.generation import generate_greedy

if TYPE_CHECKING:
    from trainables.data.examples import UnlearningData


def main() -> None:
    torch.set_num_threads(1)
    spec = TrialSpec(method="gdiff", options=(("c", 0.5),), lr=1e-3, epochs=4)
    if sys.argv[1:]:
        spec = replace(spec, dataset="tofu", data_dir=sys.argv[1], forget_split="forget01", limit=360)
    workspace = Workspace(prepare_target(spec), device="cpu")
    scorer = TextScorer(tokenizer=workspace.tokenizer, max_length=512, batch_size=32, device="cpu")
    sets = EvaluationSets(cast("UnlearningData", workspace.target.data), scorer)
    for epochs in (0, 1, 3):
        run = UnlearningRun(spec, workspace)
        for _ in range(epochs):
            next(run)
        for part in ("forget", "retain"):
            asked = sets.questions[part]
            prompts, limit = [item.prompt for item in asked.sequences], asked.longest_answer
            losses = scorer.nll(run.model, asked.sequences)
            started = time.perf_counter()
            verified = scorer.greedy_answers(run.model, asked.sequences, losses, max_new_tokens=limit)
            between = time.perf_counter()
            generated = scorer.continuations(run.model, prompts, max_new_tokens=limit)
            slow, fast = time.perf_counter() - between, between - started
            started = time.perf_counter()
            few_rows = generate_greedy(
                run.model,
                workspace.tokenizer,
                prompts,
                max_new_tokens=limit,
                batch_size=32,
                device="cpu",
                ends=scorer.ends,
            )
            slowest = time.perf_counter() - started
            same = sum(len({*texts}) == 1 for texts in zip(verified, generated, few_rows, strict=True))
            print(
                f"{epochs} epochs, {part:6} {len(prompts):3} answers: {slowest:5.2f} s generated, 32 at a time, "
                f"{slow:5.2f} s as many as fit, ratio {slowest / slow:.2f}; {fast:5.2f} s verified, "
                f"ratio {slow / fast:.2f}; {same} the same",
                flush=True,
            )


if __name__ == "__main__":
    main()
