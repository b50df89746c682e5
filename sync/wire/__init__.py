"""Protobuf modules, generated from proto/ by `sync/generate.py`."""
