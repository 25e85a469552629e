"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009): from the hub, or from a folder of parquet files or original batches.

The forget set has the first 500 training images of one class, in file order. The retain set has the training images of
all other classes. CIFAR-100 has 500 training images per class. CIFAR-10 has 5,000, so 4,500 images are in neither set.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from trainables.data.cifar_variants import CIFAR_10_VARIANT, CIFAR_100_VARIANT, Variant
from trainables.data.dataset import DataSet

if TYPE_CHECKING:
    from trainables.data.images import ImageData

FORGET_IMAGES = 500


def load_cifar(
    variant: Variant, *, forget_class: str, data_dir: Path | None = None, limit: int | None = None
) -> ImageData:
    """Load CIFAR from the hub or from ``data_dir``, which has the hub's parquet files or the original python batches.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or the class is unknown.
    """
    from trainables.data.cifar_files import read_images
    from trainables.data.images import forget_one_class

    images, train, test = read_images(variant, data_dir)
    return forget_one_class(
        images,
        dataset=variant.name,
        train=train,
        test=test,
        forget_class=forget_class,
        most=FORGET_IMAGES,
        limit=limit,
    )


def _record(variant: Variant, *, forget_class: str, forgotten: str) -> DataSet:
    return DataSet(
        name=variant.name,
        modality="vision",
        description=f"{variant.name.upper()} ({variant.hub_id}): 60,000 images of {len(variant.classes)} classes; "
        f"the forget set is {forgotten}",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        hub_id=variant.hub_id,
        files="the hub's parquet files or the original python batches",
        forget_class=forget_class,
        learns_more=len(variant.classes) == 10,
        loader=partial(load_cifar, variant),
    )


DATASETS = (
    _record(CIFAR_10_VARIANT, forget_class="dog", forgotten="500 of one class"),
    _record(CIFAR_100_VARIANT, forget_class="bed", forgotten="one class"),
)
