"""Questions about mounted file systems."""
