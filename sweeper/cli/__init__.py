"""The command line. Each module defines a group of commands."""
