"""The files in a sweep's folder: event log, tables, saved states, plug-ins and locks."""
