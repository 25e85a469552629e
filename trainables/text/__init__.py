"""Texts as token ids, and what a language model says of them."""
