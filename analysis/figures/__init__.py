"""The figures of a report. The functions ``draw_*`` draw the content that the other functions compute."""
