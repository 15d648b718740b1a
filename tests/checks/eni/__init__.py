"""Rows of the ENI checks: books that agree, and one that does not."""
