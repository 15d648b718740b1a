"""Files of a node's root, and files of the agent."""
