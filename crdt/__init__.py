"""Replicated data, pure: no I/O, no clock, no randomness, nothing of ours imported.

Read in this order: `ids`, `vector`, `encoding` (small words); `node`, `rax`, `region_log`, `merge` (the entries of a stream);
`spans`, `position`, `delivery`, `groups` (consumer groups); `idempotency`, `stream` (one key); `effects`, `block` (what travels);
`apply`, `local`, `keyspace` (what it does); `state`, `join` (snapshots); `digest` (proof of convergence).
"""
