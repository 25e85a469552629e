"""Followers react to the events of a sweep, for example by writing tables or uploading files."""
