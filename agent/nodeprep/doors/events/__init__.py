"""Event sources: what the kernel announces, as reasons to look again."""
