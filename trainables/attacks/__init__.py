"""Attacks on an unlearned model: change its weights or its questions, and measure again which facts it tells."""
