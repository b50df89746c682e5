"""Rules of the source tree that no other tool checks, and tests of these checks."""
