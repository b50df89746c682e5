"""Tests of the engine: commands in, replies and effects out."""
