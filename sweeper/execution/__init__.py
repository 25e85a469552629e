"""Ray: cluster, placement, the bridge to Ray Tune, and shutdown."""
