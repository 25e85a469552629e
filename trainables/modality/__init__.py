"""The registry of modalities. A modality is everything that differs between language models and image classifiers.

A new modality is a class like :class:`~trainables.modality.modality.Modality`, with an entry in ``MODALITIES``. The
module of a modality must not import torch, because the command line imports all modalities.
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
    """Return the modality of the data. Language models get the prompt template ``template``."""
    return MODALITIES[data.modality].with_template(template)


def dataset_modality(name: str | None) -> Modality:
    """Return the modality of a data set. The default for None and for unknown names is language."""
    return MODALITIES[DATASETS[name].modality if name is not None and name in DATASETS else Language.name]


__all__ = ["MODALITIES", "Modality", "ModelEvaluator", "dataset_modality", "modality_of"]
