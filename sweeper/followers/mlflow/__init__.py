"""Record a sweep in MLflow from a background thread, so that a slow or broken MLflow server never stops the sweep."""

from sweeper.followers.mlflow.tracker import Tracker, TrackingSummary
from sweeper.settings.tracking_uri import tracking_problem

__all__ = ["Tracker", "TrackingSummary", "tracking_problem"]
