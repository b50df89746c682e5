"""Benchmarks and acceptance programs: what anabranch measures of itself, beside real peers."""
