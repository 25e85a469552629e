"""Texts as token ids, and a language model's losses, scores and continuations of them."""
