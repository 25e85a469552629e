"""An unlearning run: the training loop and its parts."""
