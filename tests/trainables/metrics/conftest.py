"""No deadline for property tests: on a busy machine one slow example is not a failure."""

from hypothesis import settings

settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")
