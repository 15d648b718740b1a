"""Questions about the elastic network interfaces of an Alibaba Cloud ECS node: record against record."""
