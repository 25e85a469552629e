"""Choose configurations, and decide which trials continue and when the search ends."""
