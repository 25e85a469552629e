"""The models by name, and their folders."""
