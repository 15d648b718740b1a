"""RDMA devices, their ports, GIDs, counters, device nodes and QoS."""
