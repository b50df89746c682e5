"""Protobuf modules, which `sync/generate.py` generates from proto/."""
