"""nodeprep: proves that a Kubernetes node is ready for distributed training, and keeps it so."""

__version__ = "0.1.0"
