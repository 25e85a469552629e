"""The data sets by name."""

from __future__ import annotations

from pathlib import Path

from trainables.data import muse
from trainables.data.errors import DataError
from trainables.data.examples import Example, UnlearningData, keep_retain
from trainables.data.images import ImageData

ProblemData = UnlearningData | ImageData
"""An unlearning problem, of texts or of images."""

DATASETS = {
    "authors": "200 questions about 20 fictitious authors, generated; the forget set is the last two authors",
    "tofu": "TOFU (locuslab/TOFU): 4,000 questions about 200 fictitious authors; forget01, forget05 or forget10",
    "digits": "1,797 handwritten digits of 8 x 8 pixels, from scikit-learn; the forget set is one digit",
    "cifar-10": "CIFAR-10 (uoft-cs/cifar10): 60,000 images of 10 classes; the forget set is 500 of one class",
    "cifar-100": "CIFAR-100 (uoft-cs/cifar100): 60,000 images of 100 classes; the forget set is one class",
    "muse-news": "MUSE-News (muse-bench/MUSE-News): news articles as running text; forget, scal_1-4 or sust_1-4",
    "muse-books": "MUSE-Books (muse-bench/MUSE-Books): the Harry Potter books as running text",
    "jsonl": "your own forget.jsonl and retain.jsonl in --data-dir: questions with answers, or texts",
}
FORGET_SPLITS = {
    "authors": (),
    "tofu": ("forget01", "forget05", "forget10"),
    "muse-news": muse.FORGET_SPLITS,
    "muse-books": muse.FORGET_SPLITS,
    "jsonl": (),
    "digits": (),
    "cifar-10": (),
    "cifar-100": (),
}
NEEDS_HUB = {
    "tofu": "locuslab/TOFU",
    **muse.HUB_IDS,
    "cifar-10": "uoft-cs/cifar10",
    "cifar-100": "uoft-cs/cifar100",
}
IMAGE_DATASETS = ("digits", "cifar-10", "cifar-100")
"""Those of image classifiers; all others are of language models."""
NEEDS_FOLDER = {"jsonl": "forget.jsonl and retain.jsonl"}
"""Data sets that are in --data-dir or nowhere, and what it must hold."""
MAX_LENGTHS = dict.fromkeys(muse.HUB_IDS, muse.MAX_LENGTH)
"""Tokens per training sequence where a data set has its own default."""


def load_data(
    name: str,
    *,
    forget_split: str | None = None,
    forget_class: str | None = None,
    data_dir: Path | None = None,
    limit: int | None = None,
) -> ProblemData:
    """The data set called ``name``; see the modules of this package for what the arguments mean there.

    Raises:
        DataError: a file is missing or malformed, or the hub cannot be reached.
    """
    if name == "tofu":
        from trainables.data.tofu import load_tofu

        return load_tofu(forget_split=forget_split or "forget10", data_dir=data_dir, limit=limit)
    if name == "digits":
        from trainables.data.digits import load_digits

        return load_digits(forget_class=forget_class, limit=limit)
    if name in IMAGE_DATASETS:
        from trainables.data.cifar import load_cifar

        return load_cifar(name, forget_class=forget_class, data_dir=data_dir, limit=limit)
    if name in muse.HUB_IDS:
        return muse.load_muse(name, forget_split=forget_split or "forget", data_dir=data_dir, limit=limit)
    if name == "jsonl":
        from trainables.data.jsonl import NEEDS, load_jsonl

        if data_dir is None:
            raise DataError(f"data set jsonl needs --data-dir DIR with {NEEDS}")
        return load_jsonl(data_dir=data_dir, limit=limit)
    from trainables.data.authors import authors

    return keep_retain(authors(), limit, per_author=10)


__all__ = [
    "DATASETS",
    "FORGET_SPLITS",
    "IMAGE_DATASETS",
    "MAX_LENGTHS",
    "NEEDS_FOLDER",
    "NEEDS_HUB",
    "DataError",
    "Example",
    "ImageData",
    "ProblemData",
    "UnlearningData",
    "load_data",
]
