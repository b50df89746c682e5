"""Tests of anabranch; `docs/testing.md` says what is where."""
