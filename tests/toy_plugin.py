"""The text of a plug-in with one weighting."""

TOY = """from search_spaces.common.fields import Field
from trainables.weightings.base import Needs, Weighting, Weights

WEIGHTING = Weighting(
    name="toy",
    formula="(1, share)",
    needs=Needs.LOSSES,
    weigh=lambda losses, gramian, state, options: (Weights(1.0, options["share"]), state),
    citation="Toy 2026",
    options=(Field("share", 0.5, "of the forget loss", low=0.0, high=1.0),),
)
"""
