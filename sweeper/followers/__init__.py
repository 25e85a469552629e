"""Followers react to the events of a sweep: they update tables, checkpoints, MLflow, object storage and display."""
