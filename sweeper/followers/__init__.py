"""Parts that follow the sweep: tables, checkpoints, MLflow, object storage, status and display."""
