"""Decides over time: which faults are confirmed, whether the node is ready, what should stand on the Node. Pure."""
