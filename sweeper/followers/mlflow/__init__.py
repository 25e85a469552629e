"""The MLflow side of a sweep: a report costs the sweep microseconds, and no tracking server can stop it."""

from sweeper.followers.mlflow.tracker import Tracker, TrackingSummary
from sweeper.settings.tracking_uri import tracking_problem

__all__ = ["Tracker", "TrackingSummary", "tracking_problem"]
