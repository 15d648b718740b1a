"""Commands about what was."""
