"""The registered models, and model folders."""
