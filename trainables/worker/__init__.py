"""The parts of a Ray worker: the trainable, its workspace, its share of the GPU, and the files of its trials."""
