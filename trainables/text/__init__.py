"""Token ids of texts, and a language model's losses, scores and continuations."""
