"""Tests of the simulator: plans, faults, clients, judges, sweeps and stories."""
