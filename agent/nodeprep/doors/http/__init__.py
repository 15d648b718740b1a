"""HTTP: the ECS instance metadata service."""
