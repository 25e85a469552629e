"""What may vary in a sweep, as values: descriptions of settings, spaces over them; no torch, no ray."""
