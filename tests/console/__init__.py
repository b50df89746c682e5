"""Tests of the console: its server, and its page in a real browser."""
