"""Netlink: rtnetlink, RDMA, nf_tables, DCB."""
