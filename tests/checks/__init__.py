"""One test file per check, mirroring nodeprep.checks: rows are the specification."""
