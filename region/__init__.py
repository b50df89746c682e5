"""One region: a deterministic engine, and the server, storage and settings around it.

Read in this order: `engine` (decisions), `storage` (rows and SQL), `resp` (the client protocol),
`server`, `database` and `process` (the outer ring).
"""
