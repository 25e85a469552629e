"""One unlearning run: its target, data, objectives, weightings, learning-rate policy, metrics, and its Ray wrapper."""
