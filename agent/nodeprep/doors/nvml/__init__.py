"""NVIDIA's management library (NVML), asked by a child process."""
