"""Tests of anabranch. `docs/testing.md` describes the contents of each folder.

Reading order:

- `conftest`: set-up of every test run.
- `support`: helpers that the tests share.
- `crdt`: data structures, and laws of merge and join.
- `resp`: the RESP parser and encoder.
- `engine`: commands and the engine.
- `differential`: comparison with a live redis-server.
- `storage`: the database and restarts.
- `sync`: sync sessions and links.
- `server`: the server for clients.
- `sim`: the simulator.
- `scenarios`: scenario files.
- `review`: rules that a reading of the specification found broken.
- `cli`: the command line, the configuration, and the HTTP server.
- `acceptance`: small versions of the acceptance programs.
- `packaging`: the build and the docs.
- `newcomer`: the blocks of README and docs, pasted in order.
- `house`: rules of style that no other tool checks.
"""
