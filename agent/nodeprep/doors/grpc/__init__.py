"""The one gRPC client: unary calls over unix sockets, each with one absolute deadline and a limit of its answer.

h2 reads and writes HTTP/2, and does no I/O. It is imported when a socket has accepted a connection, and not before. The
door knows bytes: what a message means is the business of facts.
"""
