"""The commands of the command line, and the modules that the commands share."""
