"""The registry of modalities: language models and image classifiers.

To add a modality, write a class with the interface :class:`~trainables.modality.modality.Modality`, and add an instance
to ``MODALITIES``. The module of the class must not import torch, because the command line imports all modalities.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from trainables.data import DATASETS, TaskData
from trainables.modality.language import Language
from trainables.modality.modality import Modality
from trainables.modality.vision import Vision
from trainables.scoring.base import ModelEvaluator
from trainables.template import QUESTION_ANSWER

MODALITIES: Mapping[str, Modality] = MappingProxyType({item.name: item for item in (Language(), Vision())})


def modality_of(data: TaskData, template: str = QUESTION_ANSWER) -> Modality:
    """Return the modality of the data. ``template`` is the prompt template for language models."""
    return MODALITIES[data.modality].with_template(template)


def dataset_modality(name: str | None) -> Modality:
    """Return the modality of the data set ``name``. If the name is None or unknown, return that of language models."""
    if name is None or name not in DATASETS:
        return MODALITIES[Language.name]
    return MODALITIES[DATASETS[name].modality]


__all__ = ["MODALITIES", "Modality", "ModelEvaluator", "dataset_modality", "modality_of"]
