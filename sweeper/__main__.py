"""``python -m sweeper``."""

from sweeper.cli import main

main()
