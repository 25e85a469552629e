"""Accuracies of an image classifier: the share of images whose most probable label is the true label."""

from __future__ import annotations

from typing import Literal

from trainables.metrics.metric import HOLDOUT, VISION, Cost, Metric, Need


def _accuracy(
    set_name: str,
    of: Literal["forget", "retain"],
    *,
    images: str,
    label: str,
    needs: tuple[Need, ...] = (),
    primary: bool = True,
) -> Metric:
    return Metric(
        name=f"{set_name}_accuracy",
        label=label,
        direction="min" if of == "forget" else "max",
        of=of,
        primary=primary,
        usable={"share": 0.1 if of == "forget" else 0.9} if primary else None,
        sets=("default", "accuracy"),
        modalities=(VISION,),
        needs=needs,
        cost=Cost.FORWARD,
        formula=f"share of {images} whose most probable label is the true label",
        citation="Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020 (arXiv:1911.04933)",
        measure=lambda scores: scores.accuracy(set_name),
    )


_HELD_OUT = "held-out images of the retained classes"
METRICS = (
    _accuracy("forget", of="forget", images="the forget set's images", label="accuracy on the forget set"),
    _accuracy(
        "retain", of="retain", images="the sample of the retain set's images", label="accuracy on the retain set"
    ),
    _accuracy("test", of="retain", images=_HELD_OUT, label=f"accuracy on {_HELD_OUT}", needs=(HOLDOUT,), primary=False),
)
