"""AutoLR: choose the learning rate by fitting a parabola to the retain loss along the update direction."""
