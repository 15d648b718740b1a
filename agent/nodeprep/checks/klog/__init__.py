"""Questions to the kernel log."""
