"""Questions to GPUs and to what makes them work together, without a vendor's tool."""
