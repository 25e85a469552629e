"""One unlearning run: the target, data, objectives, weightings, learning-rate rules, metrics, and the Ray wrapper."""
