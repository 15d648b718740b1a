"""The daemon: a bell or the clock, a look, what it comes to, what is kept of it, what the world is told."""
