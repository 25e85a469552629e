"""The parts of a Ray worker: its workspace, its share of the GPU, and the files of its trials."""
