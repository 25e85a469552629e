"""The differences between CIFAR-10 and CIFAR-100: their classes, in label order, and their files."""

from __future__ import annotations

from dataclasses import dataclass

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
    """One CIFAR data set. ``mean`` and ``std`` are computed per channel over the 50,000 training images."""

    name: str
    hub_id: str
    classes: tuple[str, ...]
    label_column: str
    pickled_labels: bytes
    train_batches: tuple[str, ...]
    test_batches: tuple[str, ...]
    batches_folder: str
    mean: tuple[float, ...]
    std: tuple[float, ...]


CIFAR_10_VARIANT = Variant(
    name="cifar-10",
    hub_id="uoft-cs/cifar10",
    classes=CIFAR_10_CLASSES,
    label_column="label",
    pickled_labels=b"labels",
    train_batches=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test_batches=("test_batch",),
    batches_folder="cifar-10-batches-py",
    mean=(0.4914, 0.4822, 0.4465),
    std=(0.2470, 0.2435, 0.2616),
)
CIFAR_100_VARIANT = Variant(
    name="cifar-100",
    hub_id="uoft-cs/cifar100",
    classes=CIFAR_100_CLASSES,
    label_column="fine_label",
    pickled_labels=b"fine_labels",
    train_batches=("train",),
    test_batches=("test",),
    batches_folder="cifar-100-python",
    mean=(0.5071, 0.4865, 0.4409),
    std=(0.2673, 0.2564, 0.2762),
)
