"""Report figures. For each figure, a pure function (``*_data``) computes the content, and another function draws it."""
