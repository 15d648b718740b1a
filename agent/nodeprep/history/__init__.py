"""The record of a node: what happened to it, in values."""
