"""Questions about RDMA devices and the software around them."""
