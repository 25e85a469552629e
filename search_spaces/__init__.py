"""Search spaces: descriptions of settings, and spaces over their values, without torch or ray."""
