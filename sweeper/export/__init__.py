"""Export a checkpoint to a folder that loads without this project, with a model card."""
