"""The target model, from which all trials start, and the retain model, which some metrics need. Both are cached."""
