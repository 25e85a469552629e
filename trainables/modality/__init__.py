"""The registry of modalities. A modality is everything that differs between language models and image classifiers.

To add a modality, write a file with its :class:`~trainables.modality.modality.Modality` and add it to the table below.
The command line reads the attributes of a modality, so a modality must not import torch before a model is loaded.
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
    """Return the modality of the data; ``template`` is the prompt template for a language model."""
    return MODALITIES[data.modality].with_template(template)


def dataset_modality(name: str | None) -> Modality:
    """Return the modality of a data set, or language for None and for unknown names (which are checked elsewhere)."""
    return MODALITIES[DATASETS[name].modality if name is not None and name in DATASETS else Language.name]


__all__ = ["MODALITIES", "Modality", "ModelEvaluator", "dataset_modality", "modality_of"]
