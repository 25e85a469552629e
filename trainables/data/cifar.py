"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), from the hub or from a folder with the hub's parquet files.

The forget set has the first 500 training images of one class. The retain set has the training images of all other
classes. CIFAR-10 has 5,000 training images per class, so 4,500 images are in neither set.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data.dataset import DataSet
from trainables.data.errors import DataError
from trainables.data.files import load_hub

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from trainables.data.images import ImageData

    Images = tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]
    """Pixels ``(N, 32, 32, 3)`` (red, green, blue) and labels ``(N,)``."""

Stamps = tuple[tuple[Path, int], ...]
SPLITS = ("train", "test")
FORGET_IMAGES = 500
SIDE = 32
CIFAR_10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_100_CLASSES = tuple(
    """
    apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
    castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
    elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
    lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
    pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark
    shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone
    television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
    """.split()
)


@dataclass(frozen=True, slots=True)
class Variant:
    """One CIFAR data set. The mean and the standard deviation of each channel are those of the training images."""

    name: str
    hub_id: str
    classes: tuple[str, ...]
    label_column: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


CIFAR_10 = Variant(
    name="cifar-10",
    hub_id="uoft-cs/cifar10",
    classes=CIFAR_10_CLASSES,
    label_column="label",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR_100 = Variant(
    name="cifar-100",
    hub_id="uoft-cs/cifar100",
    classes=CIFAR_100_CLASSES,
    label_column="fine_label",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)


def load_cifar(
    variant: Variant, *, forget_class: str, data_dir: Path | None = None, limit: int | None = None
) -> ImageData:
    """Load CIFAR from the parquet files in ``data_dir``. If ``data_dir`` is None, load CIFAR from the hub.

    Raises:
        DataError: a file is missing or malformed, the hub cannot be reached, or the class is unknown.
    """
    import numpy as np

    from trainables.data.images import LabelledImages, forget_one_class

    if data_dir is None:
        splits = load_hub(variant.hub_id, instead="digits")
        parts = [_images(splits[split].with_format("arrow")[:], variant, variant.hub_id) for split in SPLITS]
    else:
        parts = [_read(variant, stamps) for stamps in _files(variant, data_dir)]
    (train, train_labels), (test, test_labels) = parts
    images = LabelledImages(
        pixels=np.concatenate([train, test]),
        labels=np.concatenate([train_labels, test_labels]),
        classes=variant.classes,
        white=255,
        mean=variant.mean,
        std=variant.std,
    )
    return forget_one_class(
        images,
        dataset=variant.name,
        held_out=np.arange(len(images.labels)) >= len(train),
        forget_class=forget_class,
        most=FORGET_IMAGES,
        limit=limit,
    )


def _files(variant: Variant, folder: Path) -> list[Stamps]:
    """Return the files of each split with their modification times."""
    if not folder.is_dir():
        raise DataError(f"--data-dir {folder}: no such folder; expected a folder with the files of {variant.name}")
    found = []
    for split in SPLITS:
        found.append(tuple((path, path.stat().st_mtime_ns) for path in sorted(folder.rglob(f"{split}-*.parquet"))))
        if not found[-1]:
            raise DataError(f"--data-dir {folder}: no {split}-*.parquet; expected the hub's files of {variant.name}")
    return found


@lru_cache(maxsize=4)  # checks and training read the same data
def _read(variant: Variant, stamps: Stamps) -> Images:
    import pyarrow
    import pyarrow.parquet

    tables = []
    for path, _ in stamps:
        try:
            tables.append(pyarrow.parquet.read_table(path))
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f"cannot read {path}: {str(error).splitlines()[0][:200]}") from None
    return _images(pyarrow.concat_tables(tables), variant, str(stamps[0][0]))


def _images(table: Any, variant: Variant, where: str) -> Images:
    """Decode the images and labels of an Arrow table. The column ``img`` contains PNG files."""
    import numpy as np
    from PIL import Image

    for column in ("img", variant.label_column):
        if column not in table.column_names:
            raise DataError(f"{where}: no column '{column}'; the columns are {', '.join(table.column_names)}")
    pixels = np.empty((table.num_rows, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.asarray(table.column(variant.label_column), dtype=np.int64)
    for row, cell in enumerate(table.column("img")):
        try:
            with Image.open(io.BytesIO(cell.as_py()["bytes"])) as image:
                pixels[row] = np.asarray(image.convert("RGB"))
        except Exception as error:
            raise DataError(f"{where}, row {row + 1}: expected an image of 32 x 32 pixels ({error})") from None
        if not 0 <= labels[row] < len(variant.classes):
            most = len(variant.classes) - 1
            raise DataError(f"{where}, row {row + 1}: expected a label from 0 to {most}, got {labels[row]}")
    return pixels, labels


def _record(variant: Variant, *, forget_class: str, forgotten: str) -> DataSet:
    return DataSet(
        name=variant.name,
        modality="vision",
        description=f"{variant.name.upper()} ({variant.hub_id}): 60,000 images of {len(variant.classes)} classes; "
        f"the forget set is {forgotten}",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        hub_id=variant.hub_id,
        files="the hub's parquet files",
        forget_class=forget_class,
        learns_more=len(variant.classes) == 10,
        loader=partial(load_cifar, variant),
    )


DATASETS = (
    _record(CIFAR_10, forget_class="dog", forgotten="500 images of one class"),
    _record(CIFAR_100, forget_class="bed", forgotten="all images of one class"),
)
