"""CIFAR-10 and CIFAR-100 (Krizhevsky 2009), from the hub or from a folder with the hub's parquet files.

The forget set has the first 500 training images of one class. The retain set has the training images of all other
classes. CIFAR-10 has 5,000 training images per class, so 4,500 images of the class are in neither set.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.data.dataset import DataSet
from trainables.data.errors import DataError
from trainables.data.files import Row, find_files, load_tables
from trainables.data.rows import read_rows

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from trainables.data.images import ImageData, LabelledImages

FILES = "the hub's parquet files"
FORGET_IMAGES = 500
SIDE = 32
MODES = ("RGB", "L", "P", "1")
"""Pillow's modes of images that become RGB without loss. Samples of 16 bits would be cut off at 255."""
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
    """One CIFAR data set. ``mean`` and ``std`` are those of each channel over the training images.

    ``folder`` is the name of the configuration on the hub, and of the folder with the configuration's files.
    """

    name: str
    hub_id: str
    folder: str
    classes: tuple[str, ...]
    label_column: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


CIFAR_10 = Variant(
    name="cifar-10",
    hub_id="uoft-cs/cifar10",
    folder="plain_text",
    classes=CIFAR_10_CLASSES,
    label_column="label",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR_100 = Variant(
    name="cifar-100",
    hub_id="uoft-cs/cifar100",
    folder="cifar100",
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

    from trainables.data.images import forget_one_class

    has_subfolder = data_dir is None or (data_dir / variant.folder).is_dir()
    prefix = f"{variant.folder}/" if has_subfolder else ""
    names = (f"{prefix}train", f"{prefix}test")
    files: list[Path] = []
    if data_dir is not None:
        for name in names:
            files += find_files(data_dir, name)
    modified_times = tuple((file, file.stat().st_mtime_ns) for file in files)
    images, train_count = _images(variant, names, data_dir, modified_times)
    return forget_one_class(
        images,
        dataset=variant.name,
        held_out=np.arange(len(images.labels)) >= train_count,
        forget_class=forget_class,
        max_forget=FORGET_IMAGES,
        limit=limit,
    )


@lru_cache(maxsize=2)  # decoding takes ten seconds, and the checks of a sweep need the same images as its target
def _images(
    variant: Variant, names: tuple[str, ...], folder: Path | None, modified_times: tuple[tuple[Path, int], ...]
) -> tuple[LabelledImages, int]:
    """Return all images (first the training images, then the test images) and the number of training images.

    ``modified_times`` lists the files in the folder with their modification times. As a part of the cache key, it
    causes changed files to be read again.
    """
    import numpy as np

    from trainables.data.images import LabelledImages

    tables = load_tables(variant.hub_id, names, folder=folder, expected=FILES, alternative="digits")
    train, test = read_rows(tables, dict.fromkeys(tables, partial(_image, variant))).values()
    pairs = [*train, *test]
    images = LabelledImages(
        pixels=np.stack([pixels for pixels, _ in pairs]),
        labels=np.array([label for _, label in pairs], dtype=np.int64),
        classes=variant.classes,
        white=255,
        mean=variant.mean,
        std=variant.std,
    )
    return images, len(train)


def _image(variant: Variant, row: Row) -> tuple[npt.NDArray[np.uint8], int]:
    """Return the pixels ``(32, 32, 3)`` (red, green, blue) and the label of an image, from its table row."""
    import numpy as np
    from PIL import Image

    value: Any = row.value
    for column in ("img", variant.label_column):
        if column not in value:
            raise DataError(f"{row.location}: the column '{column}' is missing; the columns are {', '.join(value)}")
    image = value["img"]
    label = value[variant.label_column]
    try:
        # A table from the hub has decoded images. A table from a local file has the bytes of PNG files.
        decoded = image if isinstance(image, Image.Image) else Image.open(io.BytesIO(image["bytes"]))
        pixels = np.asarray(decoded.convert("RGB"))
    except Exception as error:
        raise DataError(f"{row.location}: the column 'img' has no image ({error})") from None
    kind = decoded.mode + (" with transparency" if "transparency" in decoded.info else "")
    if kind not in MODES:
        raise DataError(
            f"{row.location}: expected an image in the mode {', '.join(MODES)} without transparency, got {kind}; "
            "convert the images to RGB"
        )
    if pixels.shape != (SIDE, SIDE, 3):
        raise DataError(f"{row.location}: expected {SIDE} x {SIDE} pixels, got {pixels.shape[1]} x {pixels.shape[0]}")
    if type(label) is not int or not 0 <= label < len(variant.classes):
        raise DataError(f"{row.location}: expected a label from 0 to {len(variant.classes) - 1}, got {label!r:.60}")
    return pixels, label


def _dataset(variant: Variant, *, forget_class: str, forget_description: str) -> DataSet:
    return DataSet(
        name=variant.name,
        modality="vision",
        description=f"{variant.name.upper()} ({variant.hub_id}): 60,000 images of {len(variant.classes)} classes; "
        f"the forget set is {forget_description}",
        citation="Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        hub_id=variant.hub_id,
        files=FILES,
        sizes={"": (FORGET_IMAGES, 50_000 - 50_000 // len(variant.classes))},
        forget_class=forget_class,
        learns_more=len(variant.classes) == 10,
        loader=partial(load_cifar, variant),
    )


DATASETS = (
    _dataset(CIFAR_10, forget_class="dog", forget_description="500 images of one class"),
    _dataset(CIFAR_100, forget_class="bed", forget_description="all images of one class"),
)
