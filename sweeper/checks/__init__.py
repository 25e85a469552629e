"""Check settings against the machine, the hub, the disk and the cluster before work starts."""
