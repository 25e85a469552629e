"""The MLflow runs of a sweep. Recording an event takes microseconds, and no tracking server can stop the sweep."""

from sweeper.followers.mlflow.tracker import Tracker, TrackingSummary
from sweeper.settings.tracking_uri import tracking_problem

__all__ = ["Tracker", "TrackingSummary", "tracking_problem"]
