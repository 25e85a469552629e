"""Load scikit-learn's 1,797 handwritten digits of 8 x 8 pixels. No network is needed.

Every fifth image is held out for evaluation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.data.dataset import DataSet

if TYPE_CHECKING:
    from trainables.data.images import ImageData

HELD_OUT = 5
MEAN, STD = (0.30581,), (0.37644,)
"""The mean and standard deviation of the training images' pixels, on a scale from 0 to 1."""


def load_digits(*, forget_class: str = "3", limit: int | None = None) -> ImageData:
    """Return the data for forgetting the training images of one digit.

    Raises:
        DataError: the class is unknown.
    """
    import numpy as np
    from sklearn import datasets

    from trainables.data.images import LabelledImages, forget_one_class

    bunch = datasets.load_digits()
    images = LabelledImages(
        pixels=bunch.images.astype(np.uint8)[..., None],  # whole numbers from 0 to 16
        labels=bunch.target.astype(np.int64),
        classes=tuple(str(name) for name in bunch.target_names),
        white=16,
        mean=MEAN,
        std=STD,
    )
    held_out = np.arange(len(images.labels)) % HELD_OUT == HELD_OUT - 1
    return forget_one_class(images, dataset="digits", held_out=held_out, forget_class=forget_class, limit=limit)


DATASETS = DataSet(
    name="digits",
    modality="vision",
    description="1,797 handwritten digits of 8 x 8 pixels, from scikit-learn; the forget set is one digit",
    citation="Kaynak, Methods of Combining Multiple Classifiers and Their Applications to Handwritten Digit "
    "Recognition, 1995",
    sizes={"": (131, 1307)},
    forget_class="3",
    loader=load_digits,
)
