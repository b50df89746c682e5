"""What studies anabranch from outside: scenarios (`sim.scenario`) that run live, and the deterministic simulator."""
