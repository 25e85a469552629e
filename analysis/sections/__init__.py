"""The parts of a report: what each says, before it is laid out on a page."""
