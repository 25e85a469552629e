"""Write the report: compute the content of each part, and render the page."""
