"""Questions about limits that the processes of a job inherit."""
