"""Questions about lossless Ethernet."""
