"""Start Ray, place trials, share GPUs, prepare the target, and shut Ray down."""
