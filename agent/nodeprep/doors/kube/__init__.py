"""The Kubernetes API server: reads, watches, writes."""
