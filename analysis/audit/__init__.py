"""The audit: which models cannot be told from models that never saw the forget set, and which metrics can tell."""
