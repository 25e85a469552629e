"""Run trials in a Ray worker: the Ray Tune trainable, the workspace of the process, and the files of the trials."""
