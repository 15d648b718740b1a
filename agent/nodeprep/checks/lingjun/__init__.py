"""Lingjun nodes: the virtual functions and the zone that Terway works with there."""
