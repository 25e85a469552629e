"""ROUGE-L recall: the share of the reference answer's words that a generated answer contains in the same order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

from search_spaces.common.words import words
from trainables.metrics.item_mean import item_mean
from trainables.metrics.metric import KNOWMEM, MUSE, Array, Cost, Metric

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import Tokenizer


def rouge_l_recall(references: Sequence[str], predictions: Sequence[str]) -> Array:
    """Return ``LCS(reference, prediction) / len(reference)`` in words, per item: float64 ``(n,)`` in [0, 1].

    The package ``rouge_score`` (Lin, ROUGE, 2004) computes the recall and stems ASCII words, as in TOFU. Its own
    tokenizer knows only ASCII, so :func:`~search_spaces.common.words.words` splits the texts. For ASCII texts, both
    give the same words. A reference without words scores 0.
    """
    import numpy as np

    recalls = [_recall_of(reference, prediction) for reference, prediction in zip(references, predictions, strict=True)]
    return np.array(recalls, dtype=np.float64)


@lru_cache(maxsize=1 << 14)
def _recall_of(reference: str, prediction: str) -> float:
    # Cached, because most answers on the retain set are the same for the next model.
    return float(_scorer().score(reference, prediction)["rougeL"].recall)


@cache
def _scorer() -> RougeScorer:
    # Imported here, because the stemmer imports nltk, which takes seconds.
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rougeL"], tokenizer=_tokenizer())


def stemmed_words(text: str) -> list[str]:
    """Return the words of a text. ASCII words are stemmed as in the package ``rouge_score``."""
    return list(chain.from_iterable(map(_stem, words(text))))


@cache
def _stem(word: str) -> tuple[str, ...]:
    return tuple(_stemmer().tokenize(word)) if word.isascii() else (word,)


@cache
def _stemmer() -> Tokenizer:
    from rouge_score.tokenizers import DefaultTokenizer

    return DefaultTokenizer(use_stemmer=True)


def _tokenizer() -> Tokenizer:
    from rouge_score.tokenizers import Tokenizer

    class StemmedWords(Tokenizer):  # type: ignore[misc]  # the package has no types
        def tokenize(self, text: str) -> list[str]:
            return stemmed_words(text)

    return StemmedWords()


_recall = partial(Metric, unit="ROUGE-L recall", cost=Cost.GENERATION, citation=MUSE)
METRICS = (
    _recall(
        name="verbmem",
        label="verbatim memorisation of the forget set",
        direction="min",
        of="forget",
        primary=True,
        threshold={"below": 0.1},
        sets=("default", "tofu", "muse"),
        formula="mean ROUGE-L recall of greedy continuations on the forget set",
        measure=lambda scores: item_mean(scores.recalls("forget", prompts="verbmem")),
    ),
    _recall(
        name="knowmem",
        label="knowledge memorisation of the forget set",
        direction="min",
        of="forget",
        threshold={"below_share": 0.7},
        sets=("default", "muse"),
        needs=(KNOWMEM,),
        formula="mean ROUGE-L recall of greedy answers to questions about the forget set",
        measure=lambda scores: item_mean(scores.recalls("forget", prompts="knowmem")),
    ),
    _recall(
        name="utility",
        label="utility on the retain set",
        direction="max",
        of="retain",
        primary=True,
        threshold={"share": 0.7},
        sets=("default", "tofu", "muse"),
        formula="mean ROUGE-L recall of greedy answers on a sample of the retain set",
        measure=lambda scores: item_mean(scores.recalls("retain", prompts="utility")),
    ),
)
