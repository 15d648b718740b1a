"""The commands that change a node: `provision`, `repair`, `drill`."""
