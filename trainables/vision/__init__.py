"""Labelled pixels as a classifier's input, the classifiers, and their losses."""
