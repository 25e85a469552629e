"""A checkpoint as a folder to hand on: loads without this project, and a model card says what it is."""
