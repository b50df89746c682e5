"""Tests of anabranch. `docs/testing.md` describes the contents of each folder."""
