"""Elastic RDMA: the driver, its mode, its devices, and what erdma-controller keeps of them."""
