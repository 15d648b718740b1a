"""Questions about the clock."""
