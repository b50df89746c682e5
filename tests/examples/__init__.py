"""Tests of examples/rocket_rides: its parts, whole runs, and PostgreSQL (`make test-examples`)."""
