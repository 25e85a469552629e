"""The modalities by name: everything that differs between language models and image classifiers.

To add one, write a file with its :class:`~trainables.modality.modality.Modality` and add it to the table below. No
modality imports torch before a model is loaded, because the command line reads their attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.data import DATASETS, TaskData
from trainables.modality.language import Language
from trainables.modality.modality import Modality, ModelEvaluator
from trainables.modality.vision import Vision
from trainables.template import QUESTION_ANSWER

MODALITIES: Mapping[str, Modality] = MappingProxyType({item.name: item for item in (Language(), Vision())})


def modality_of(data: TaskData, template: str = QUESTION_ANSWER) -> Modality:
    """Return the modality of some data; ``template`` is the prompt template of a language model."""
    return MODALITIES[data.modality].with_template(template)


def dataset_modality(name: str | None) -> Modality:
    """Return the modality of a data set; language if the name is None or unknown (names are checked elsewhere)."""
    return MODALITIES[DATASETS[name].modality if name is not None and name in DATASETS else Language.name]


__all__ = ["MODALITIES", "Modality", "ModelEvaluator", "dataset_modality", "modality_of"]
