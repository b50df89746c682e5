"""Naive twins of `crdt`, written from the rules alone: plain dicts, sets and lists, slow and plainly right.

`naive_log` (entries, merge, trim, spans), `naive_stream` (one region: effects, join, collection), `naive_engine` (what a region issues).
"""
