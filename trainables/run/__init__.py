"""One unlearning run: the training loop and what it is made of."""
