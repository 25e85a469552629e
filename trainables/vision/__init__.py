"""Image classifiers: their input, their models and their losses."""
