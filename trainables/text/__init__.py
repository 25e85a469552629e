"""Convert texts to token ids, and compute a language model's losses, scores and continuations of them."""
