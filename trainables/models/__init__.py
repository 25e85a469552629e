"""The registry of models, and functions that create, load, change and save models."""
