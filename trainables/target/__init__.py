"""The target model, from which all trials start, and the retain model, which metrics compare with. Both are cached."""
