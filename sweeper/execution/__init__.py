"""Use Ray for a sweep: start or join a cluster, place trials, share GPUs, prepare the target, and shut Ray down."""
