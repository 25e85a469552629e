"""Read tables of trials and training histories from this project's sweeps and from other programs."""
