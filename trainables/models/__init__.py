"""The registry of models, and the reading and writing of model folders."""
