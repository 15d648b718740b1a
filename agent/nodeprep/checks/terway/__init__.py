"""Questions about Terway, the network plugin of Alibaba Cloud."""
