"""Checks of the kubelet and of the container runtime under it."""
