"""The sweep's folder: tables, saved states, recovery and locks."""
