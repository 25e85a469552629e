"""Write the report: the content of each part, and the page."""
