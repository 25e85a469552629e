"""Record a sweep in MLflow from a background thread, so that a slow or broken MLflow server never stops the sweep."""
