"""The learning-rate study: how much results depend on the rate, and how AutoLR compares with hand-tuned rates."""
