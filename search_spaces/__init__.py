"""What may vary in a sweep: spaces over methods, learning rates and method options, as values."""
