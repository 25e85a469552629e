"""The learning-rate study: sensitivity, and AutoLR against the best hand-tuned rate."""
