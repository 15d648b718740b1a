"""What should be on a node: by its profile, by its like ports, by its hardware."""
