"""Image classifiers: the second implementation of :class:`trainables.modality.Modality`."""
