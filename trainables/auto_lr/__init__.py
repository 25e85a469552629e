"""AutoLR: the learning rate fitted along the step."""
