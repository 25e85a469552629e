"""MUSE (Shi et al. 2024, arXiv:2407.06460): news articles and books as running text, from the hub or a folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from trainables.data.dataset import DataSet
from trainables.data.errors import DataError
from trainables.data.examples import Example, Prompted, UnlearningData
from trainables.data.files import load_tables
from trainables.data.rows import passage, question, read_rows, text

HUB_IDS = {"muse-news": "muse-bench/MUSE-News", "muse-books": "muse-bench/MUSE-Books"}
SPLITS = tuple(f"{subset}_{number}" for subset in ("scal", "sust") for number in (1, 2, 3, 4))
MAX_LENGTH = 2048
"""The length of a training window in tokens, as in the paper."""
VERBMEM_TOKENS, KNOWMEM_TOKENS = 128, 32
KNOWMEM_STOP = ("\n\n", "\nQuestion", "Question:")
SAMPLE = 100

_TRAIN = ("train/forget", "train/retain1", "train/retain2")
_TEXTS = ("privleak/forget", "privleak/retain", "privleak/holdout")
_QUESTIONS = ("knowmem/forget_qa", "knowmem/forget_qa_icl", "knowmem/retain_qa", "knowmem/retain_qa_icl")
_PASSAGES = "verbmem/forget"


def load_muse(
    name: str, *, forget_split: str = "forget", data_dir: Path | None = None, limit: int | None = None
) -> UnlearningData:
    """Load MUSE-News or MUSE-Books with the forget set ``forget_split`` and the retain set ``raw/retain1``.

    The split ``scal_k`` is the k-th of four growing forget sets. The split ``sust_k`` is the k-th of four disjoint
    removal requests. For k > 1, give the model that was unlearned for request k-1 as the target. For these requests,
    MUSE has no verbmem passages and no questions, so verbmem is measured on a sample of the request's texts, and
    knowmem is not measured.

    Each corpus is one example, in which blank lines separate the texts. With a limit, only the first ``limit`` texts of
    each retain corpus are kept.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    if forget_split != "forget" and name == "muse-books" and data_dir is None:
        raise DataError(
            f"the hub has no forget split {forget_split} for {name}, only for muse-news; to use your own files, give "
            "--data-dir DIR"
        )
    if forget_split == "forget":
        forget = "raw/forget"
    else:
        subset, _, number = forget_split.partition("_")
        forget = f"{subset}/forget_{number}"
    converters = dict.fromkeys((forget, "raw/retain1", *_TRAIN, *_TEXTS), text)
    converters |= dict.fromkeys(_QUESTIONS, question)
    converters[_PASSAGES] = passage
    rows = load_tables(HUB_IDS[name], list(converters), folder=data_dir, expected=_files(name))
    tables = read_rows(rows, converters)
    for table in tables:
        if table.startswith(("raw/retain", "train/retain")):
            tables[table] = tables[table][:limit]
    is_later = forget_split.startswith("sust") and forget_split != "sust_1"
    return UnlearningData(
        name=f"{name}/{forget_split}",
        forget=(_join_texts(tables[forget]),),
        retain=(_join_texts(tables["raw/retain1"]),),
        full=tuple(_join_texts(tables[table]) for table in _TRAIN),
        forget_eval=_sample(tables[forget]) if is_later else tables["privleak/forget"],
        retain_eval=tables["privleak/retain"] if limit is None else _sample(tables["raw/retain1"]),
        holdout=tables["privleak/holdout"],
        prompted=_prompted(tables, is_later=is_later),
    )


def question_prompt(question: str, in_context: Sequence[Example]) -> str:
    """Return the prompt for a question. The prompt starts with the questions and answers in ``in_context``."""
    context = "".join(f"Question: {item.question}\nAnswer: {item.answer}\n\n" for item in in_context)
    # In MUSE's code, the prompt ends with "Answer: ". Here, the prompt ends without the space, because tokenizers join
    # a space with the next word.
    return f"{context}Question: {question}\nAnswer:"


def _files(name: str) -> str:
    return f"the files of {HUB_IDS[name]} as SUBSET/SPLIT.json"


def _prompted(tables: Mapping[str, Sequence[Example]], *, is_later: bool) -> dict[str, tuple[Prompted, ...]]:
    def questions(side: str) -> tuple[Prompted, ...]:
        in_context = tables[f"knowmem/{side}_qa_icl"]
        return tuple(
            Prompted(
                prompt=question_prompt(item.question, in_context),
                reference=item.answer,
                max_new_tokens=KNOWMEM_TOKENS,
                stop=KNOWMEM_STOP,
            )
            for item in tables[f"knowmem/{side}_qa"]
        )

    if is_later:
        return {"knowmem_retain": questions("retain")}
    passages = tuple(
        Prompted(prompt=item.question, reference=item.answer, max_new_tokens=VERBMEM_TOKENS)
        for item in tables[_PASSAGES]
    )
    return {"verbmem": passages, "knowmem_forget": questions("forget"), "knowmem_retain": questions("retain")}


def _join_texts(texts: Sequence[Example]) -> Example:
    return Example(question="", answer="\n\n".join(item.answer for item in texts))


def _sample(texts: tuple[Example, ...]) -> tuple[Example, ...]:
    return texts[:: math.ceil(len(texts) / SAMPLE)]


def _dataset(name: str, description: str) -> DataSet:
    return DataSet(
        name=name,
        modality="language",
        description=description,
        citation="Shi et al., MUSE: Machine Unlearning Six-Way Evaluation for Language Models, ICLR 2025 "
        "(arXiv:2407.06460)",
        hub_id=HUB_IDS[name],
        files=_files(name),
        forget_splits=("forget", *SPLITS),
        forget_split="forget",
        max_length=MAX_LENGTH,
        is_text=True,
        learns_more=True,
        loader=partial(load_muse, name),
    )


DATASETS = (
    _dataset(
        "muse-news",
        "MUSE-News (muse-bench/MUSE-News): news articles as running text; the forget split is forget, scal_1 to "
        "scal_4, or sust_1 to sust_4",
    ),
    _dataset("muse-books", "MUSE-Books (muse-bench/MUSE-Books): the Harry Potter books as running text"),
)
