"""The judges, one file for each invariant."""

from __future__ import annotations

from sim.history import Checker

ALL: list[type[Checker]] = []
