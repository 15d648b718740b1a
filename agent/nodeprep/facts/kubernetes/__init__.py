"""What the API server keeps about the node."""
