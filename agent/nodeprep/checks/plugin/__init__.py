"""Pods that serve device plugins and networks, and what Kubernetes advertises of them."""
