"""Questions about kernel modules."""
