"""The parts of an unlearning run: target, data, objectives, weightings, learning-rate rules, metrics and Ray
wrapper."""
