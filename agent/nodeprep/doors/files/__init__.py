"""Files: of a node's root, and the agent's own."""
