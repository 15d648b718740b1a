"""Questions about the instance metadata service of ECS."""
