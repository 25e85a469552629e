"""What every part of a kind promises, as checks to run on parts of one's own: each raises AssertionError."""
