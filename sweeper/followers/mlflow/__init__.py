"""Record a sweep in MLflow from a background thread. A slow or broken server never stops the sweep."""
