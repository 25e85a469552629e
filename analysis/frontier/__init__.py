"""The trade-off: objectives, frontier, hypervolume, and which trial to take."""
