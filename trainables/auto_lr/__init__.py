"""AutoLR: choose the learning rate by fitting the retain loss along the update direction."""
