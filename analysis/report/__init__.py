"""Present results: the recommended model, the report page, comparison tables, and learning-rate studies."""
