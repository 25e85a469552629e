"""The parts of a Ray worker: the trainable, the process that runs it, and the files of its trials."""
