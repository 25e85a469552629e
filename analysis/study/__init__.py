"""The learning-rate study: the sensitivity to the rate, and the comparison of AutoLR with hand-tuned rates."""
