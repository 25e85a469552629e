"""Convert texts to token ids. Compute a language model's losses, scores and continuations for texts."""
