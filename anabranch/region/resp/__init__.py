"""The RESP protocol, without I/O.

Reading order:

- `parser`: turns the bytes of a client into commands.
- `like`: commands that differ from the one before in some arguments only.
- `inline`: splits an inline command, a line without RESP framing, into arguments.
- `entries`: turns entries, as they lie in packed nodes, into bytes.
- `encoder`: turns replies into the bytes of RESP2 or RESP3.
- `request`: the client's side: commands as bytes.
- `decoder`: the client's side: turns the bytes of a server into replies.
"""
