"""`nodeprep agent`, `wait-ready` and `reset`."""
