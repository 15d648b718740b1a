"""`nodeprep preflight`: whether a job can start."""
