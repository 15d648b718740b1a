"""The node's network: interfaces, routes, netfilter, sysctls, CNI."""
