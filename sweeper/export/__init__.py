"""Export a checkpoint and a model card to a folder that loads without this project."""
