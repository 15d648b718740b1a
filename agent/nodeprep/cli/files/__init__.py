"""`nodeprep config`, `profile` and `snapshot`."""
