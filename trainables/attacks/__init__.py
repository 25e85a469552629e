"""Attacks on an unlearned model: what it tells after it was changed, or when it is asked in another way."""
