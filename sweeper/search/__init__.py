"""Choose the next configuration, and decide which trials continue and when the search ends."""
