"""The documents, and the programs that write some of them."""
