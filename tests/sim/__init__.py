"""Tests of the simulator: world, load, judges."""
