"""Metrics of an unlearned model, computed from per-item values: losses, token ids, log-probabilities, texts."""
