"""Questions about single RDMA ports."""
