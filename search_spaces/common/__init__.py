"""Small modules that all packages use: files, messages, fields of settings, values and checksums."""
