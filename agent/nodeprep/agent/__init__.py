"""The daemon: an event source or the clock, a look, what it comes to, what is kept of it, what the world is told."""
