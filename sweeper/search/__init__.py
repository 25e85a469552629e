"""Which configuration is tried next, and which trials continue."""
