"""`nodeprep nodes`: the fleet."""
