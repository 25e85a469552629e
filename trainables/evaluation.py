"""The metrics of a model on the fixed evaluation sets: losses after every epoch, the costly ones at the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trainables.data.examples import Example, UnlearningData
from trainables.generation import generate_greedy
from trainables.losses import sequence_nll
from trainables.metrics.rouge import rouge_l_recall
from trainables.metrics.truth_ratio import forget_truth_ratio, retain_truth_ratio, truth_ratio
from trainables.prompted import prompted_sets
from trainables.tokens import QUESTION_ANSWER, Tokens, encode, encode_examples
from trainables.vision.evaluation import ACCURACIES

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

LOSSES = ("forget_loss", "retain_loss", "forget_loss_capped")
FINAL_METRICS = ("verbmem", "knowmem", "utility", "truth_ratio", "forget_truth_ratio", *ACCURACIES)


class Evaluator:
    """Scores models on one unlearning problem; the sets are tokenised once, here.

    ``random_guess`` is ``ln|V|``, the loss of a uniform guess: the cap of ``forget_loss_capped``, since a loss of
    40 or 500 is not "more forgotten" than a guess.
    """

    def __init__(
        self,
        data: UnlearningData,
        tokenizer: PreTrainedTokenizerBase,
        *,
        vocabulary_size: int,
        max_length: int,
        batch_size: int,
        device: torch.device | str,
        template: str = QUESTION_ANSWER,
    ) -> None:
        self.random_guess = math.log(vocabulary_size)
        self._tokenizer = tokenizer
        self._device = device
        self._batch_size = batch_size
        self._forget = _QuestionSet(data.forget, tokenizer, max_length, template)
        self._retain = _QuestionSet(data.retain_eval, tokenizer, max_length, template)
        self._forget_choices = _ChoiceSet(data.forget_eval, tokenizer, max_length, template)
        self._retain_choices = _ChoiceSet(data.retain_eval, tokenizer, max_length, template)
        self._prompted = prompted_sets(data, tokenizer)

    def losses(self, model: PreTrainedModel) -> dict[str, float]:
        """Token-mean cross-entropy on the whole forget set and on the retain sample, and the capped forget loss."""
        forget = self._mean_loss(model, self._forget.sequences)
        retain = self._mean_loss(model, self._retain.sequences)
        capped = min(forget, self.random_guess) if math.isfinite(forget) else forget
        return {"forget_loss": forget, "retain_loss": retain, "forget_loss_capped": capped}

    def final(self, model: PreTrainedModel) -> dict[str, float]:
        """The metrics of a finished model.

        ``verbmem`` and ``utility``: mean ROUGE-L recall of greedy answers on the forget set and on the retain sample,
        or where the data have prompts of their own (MUSE) or are plain texts, of greedy continuations; ``knowmem``:
        the same for questions about the forget set, only where the data have them apart (MUSE).
        ``truth_ratio``: ``mean max(0, 1 - truth ratio)`` on the retain sample, higher is better (TOFU);
        ``forget_truth_ratio``: ``mean min(s, 1/s)`` on the forget set. A truth ratio is left out where the data have
        no perturbed answers.
        """
        metrics = {"verbmem": self.verbmem(model)}
        if "knowmem" in self._prompted:
            metrics["knowmem"] = self._prompted_recall(model, "knowmem")
        prompted = "utility" in self._prompted
        metrics["utility"] = self._prompted_recall(model, "utility") if prompted else self.rouge(model, self._retain)
        if self._retain_choices:
            metrics["truth_ratio"] = retain_truth_ratio(self._truth_ratios(model, self._retain_choices))
        if self._forget_choices:
            metrics["forget_truth_ratio"] = forget_truth_ratio(self._truth_ratios(model, self._forget_choices))
        return metrics

    def verbmem(self, model: PreTrainedModel) -> float:
        """Mean ROUGE-L recall of greedy answers on the forget set, or of the continuations its data ask for."""
        prompted = "verbmem" in self._prompted
        return self._prompted_recall(model, "verbmem") if prompted else self.rouge(model, self._forget)

    def rouge(self, model: PreTrainedModel, questions: _QuestionSet) -> float:
        """Mean ROUGE-L recall of greedy answers; an answer may be as long as the longest reference."""
        answers = generate_greedy(
            model,
            self._tokenizer,
            [item.prompt for item in questions.sequences],
            max_new_tokens=questions.longest_answer,
            batch_size=self._batch_size,
            device=self._device,
        )
        return float(rouge_l_recall(questions.references, answers).mean())

    def _prompted_recall(self, model: PreTrainedModel, metric: str) -> float:
        scores = self._prompted[metric].scores(model, self._tokenizer, batch_size=self._batch_size, device=self._device)
        return float(scores.mean())

    def _mean_loss(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> float:
        totals, counts = self._nll(model, sequences)
        return math.fsum(totals) / sum(counts) if all(map(math.isfinite, totals)) else math.nan

    def _truth_ratios(self, model: PreTrainedModel, choices: _ChoiceSet) -> np.ndarray:
        totals, counts = self._nll(model, choices.sequences)
        per_token = np.asarray(totals) / np.asarray(counts)
        paraphrased, *perturbed = per_token.reshape(-1, choices.per_item).T
        return truth_ratio(paraphrased, np.stack(perturbed, axis=1))

    def _nll(self, model: PreTrainedModel, sequences: Sequence[Tokens]) -> tuple[list[float], list[int]]:
        return sequence_nll(
            model,
            sequences,
            pad_id=int(self._tokenizer.pad_token_id),
            batch_size=self._batch_size,
            device=self._device,
        )


class _QuestionSet:
    """The tokenised questions and answers of one evaluation set."""

    def __init__(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int, template: str
    ) -> None:
        self.sequences = encode_examples(tokenizer, examples, max_length=max_length, template=template)
        self.references = [example.answer for example in examples]
        self.longest_answer = max(len(item) - item.prompt_length for item in self.sequences)


class _ChoiceSet:
    """Per item the paraphrased answer and then the perturbed ones, flattened; falsy where the data have none."""

    def __init__(
        self, examples: Sequence[Example], tokenizer: PreTrainedTokenizerBase, max_length: int, template: str
    ) -> None:
        usable = [example for example in examples if example.paraphrased_answer and example.perturbed_answers]
        # Within a data set all items have the same number, so the least of them loses nothing.
        perturbed = min((len(example.perturbed_answers) for example in usable), default=0)
        self.per_item = 1 + perturbed
        self.sequences = tuple(
            encode(tokenizer, example.question, answer, max_length=max_length, template=template)
            for example in usable
            for answer in (example.paraphrased_answer, *example.perturbed_answers[:perturbed])
        )

    def __bool__(self) -> bool:
        return bool(self.sequences)
