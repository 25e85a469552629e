"""One unlearning run: data, models, methods, metrics, the target, the training loop and the Ray worker."""
