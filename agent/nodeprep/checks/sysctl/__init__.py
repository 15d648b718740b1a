"""Kernel settings of the network, as they are and as the next boot will set them."""
