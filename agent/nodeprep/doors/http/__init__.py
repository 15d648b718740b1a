"""The one HTTP/1.1 client: each request has one absolute deadline, and each body a limit of its size.

h11 reads and writes HTTP, and does no I/O. The sockets are ours, so that each wait ends at the deadline.
"""
