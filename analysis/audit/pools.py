"""The two pools of models that an audit fine-tunes. The names are the values of the column ``method``."""

NEVER_SAW = "never-saw"
"""Models that were fine-tuned as the target was, but without the forget set."""
SAW = "saw"
"""Models that were fine-tuned as the target was, with the forget set and another seed."""
