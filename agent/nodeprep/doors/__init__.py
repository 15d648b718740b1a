"""Doors do I/O by one mechanism each and hold no opinion."""
