"""Thinks over time: what is believed, whether the node is ready, what the world should be told. Pure."""
