"""The load: simulated clients that behave as real ones do.

A client knows only what replies told it. It keeps or loses its connection, gives up waiting,
fails over to another region, crashes and forgets. Its next act follows from its kind, from its
knowledge, and from the randomness that each step brings along (`sim.plan.Intent`).

Reading order:

- `base`: the class `Client` with everything that all kinds share.
- `arguments`: parts of commands that several kinds use.
- `producers`: clients that add entries, with or without idempotency.
- `consumers`: clients that read and acknowledge as consumers of groups.
- `readers`: clients that follow streams with XREAD, and clients that only read.
- `trimming`: clients that trim streams and delete entries.
- `administrators`: clients that change keys, deadlines, groups and settings.
- `transactions`: clients that send MULTI … EXEC.
- `synchronous`: clients that wait until a write has reached other regions.
- `client`: the table of kinds, from which the world makes clients.
"""
