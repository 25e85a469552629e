"""The report: what each part says, and the page."""
