"""One unlearning run: the training loop, the two losses and their gradients, the reports and the saved state."""
