"""The command line: what operators type and read."""
