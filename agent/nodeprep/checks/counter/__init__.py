"""Questions about the error counters of RDMA ports: how they grow, never how high they stand."""
