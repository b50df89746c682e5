"""Deterministic decisions: commands in, replies and effects out. No clock, no I/O, no randomness."""
