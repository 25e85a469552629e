"""Run a sweep on Ray: start or join a cluster, place trials, share GPUs, prepare the target, and shut down."""
