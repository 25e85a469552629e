"""The target model, from which all trials start, and the retain model, to which metrics compare. Both are cached."""
