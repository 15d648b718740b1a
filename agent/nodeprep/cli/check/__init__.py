"""`nodeprep check`, `list` and `explain`."""
