"""Tests of the server: client connections over sockets, with a stub for the engine."""
