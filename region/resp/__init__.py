"""RESP without I/O. Read `parser` (bytes to commands), then `encoder` (replies to bytes)."""
