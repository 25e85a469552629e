"""Start Ray, place trials, share GPUs, prepare the target (the model before unlearning), and shut Ray down."""
