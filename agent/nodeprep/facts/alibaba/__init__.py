"""What only a node of Alibaba Cloud has: metadata, ENIs, Terway, eRDMA, Lingjun."""
