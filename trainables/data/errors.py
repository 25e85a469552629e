"""What is raised when data cannot be had or are not what they should be."""


class DataError(ValueError):
    """A data file is missing or malformed; the message is a plain sentence for the user."""
