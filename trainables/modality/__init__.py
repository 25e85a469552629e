"""What differs between language models and image classifiers."""
