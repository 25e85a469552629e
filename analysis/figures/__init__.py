"""The figures of a report. For each figure, a pure function (``*_data``) computes the content, and another draws it."""
