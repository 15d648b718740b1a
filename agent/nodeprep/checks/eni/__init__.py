"""Questions about the elastic network interfaces of an Alibaba Cloud ECS node: book against book."""
