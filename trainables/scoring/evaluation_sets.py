"""The tokenised evaluation sets of a task: questions with answers, and the alternative answers of each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from trainables.data.examples import Example, UnlearningData
from trainables.metrics.metric import has_choices
from trainables.scoring.measured import LazyDict
from trainables.scoring.prompted import prompted_sets
from trainables.text.scorer import TextScorer

Parts: TypeAlias = Mapping[str, Sequence[Example]]


class QuestionSet:
    """A tokenised evaluation set: questions with answers, or plain texts in windows of ``max_length`` tokens."""

    def __init__(self, examples: Sequence[Example], scorer: TextScorer) -> None:
        self.sequences = scorer.encode(examples)
        self.questions = [example.question for example in examples]
        self.references = [example.answer for example in examples]
        self.longest_answer = max((len(item) - item.prompt_length for item in self.sequences), default=0)


class ChoiceSet:
    """All answers of all items in one list: for each item the paraphrased answer, then the perturbed answers.

    Item i has ``sizes[i]`` answers, and its index in the evaluation set is ``items[i]``.
    """

    def __init__(self, examples: Sequence[Example], scorer: TextScorer) -> None:
        usable = [(place, item) for place, item in enumerate(examples) if has_choices(item)]
        answers = [(item.paraphrased_answer, *item.perturbed_answers) for _, item in usable]
        self.items = [place for place, _ in usable]
        self.sizes = [len(choices) for choices in answers]
        pairs = zip(usable, answers, strict=True)
        self.sequences = scorer.encode([Example(item.question, text) for (_, item), texts in pairs for text in texts])


class EvaluationSets:
    """The evaluation sets of one task by name. Each set is tokenised once.

    ``forget`` has the items on which forgetting is measured; ``trained`` is the forget set itself. ``retain`` is a
    sample of the retain set; ``retain_losses`` is the part of this sample that is used for the retain loss after each
    epoch. The constructor tokenises these four sets, so a prompt that is too long is reported at once. All other sets
    are tokenised when they are first used. If the forget set is running text (MUSE), ``members`` has its texts for
    membership inference.
    """

    def __init__(self, data: UnlearningData, scorer: TextScorer) -> None:
        self.scorer = scorer
        texts = data.forget_eval if any(example.is_text for example in data.forget_eval) else ()
        chosen: Parts = {"forget": data.forget_eval, "retain": data.retain_eval, **data.extra_eval}
        asked: Parts = {**chosen, "forget": data.judged, "holdout": data.holdout, "members": texts}
        self._chosen, self._asked = chosen, asked
        self.questions = LazyDict[str, QuestionSet](lambda part: QuestionSet(asked[part], scorer))
        self.choices = LazyDict[str, ChoiceSet](lambda part: ChoiceSet(chosen[part], scorer))
        self.prompted = prompted_sets(data, scorer.tokenizer)
        for part in ("forget", "retain"):
            _ = self.questions[part], self.choices[part]
        trained = self.questions["forget"] if data.judged_as_trained else QuestionSet(data.forget, scorer)
        self.questions["trained"] = trained
        sampled = data.retain_losses is not data.retain_eval
        self.questions["retain_losses"] = (
            QuestionSet(data.retain_losses, scorer) if sampled else self.questions["retain"]
        )

    def has(self, part: str) -> bool:
        """Return whether the data have items for this evaluation set."""
        return bool(self._asked.get(part))

    def has_choices(self, part: str) -> bool:
        """Return whether any item of the set has paraphrased and perturbed answers."""
        return any(map(has_choices, self._chosen.get(part, ())))
