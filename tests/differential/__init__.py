"""The same commands to a live redis-server and to the engine: replies must be equal, byte for byte, but for what S15 documents.

Read in this order: `replies` (reading RESP), `sides` (the two servers), `settled` (what may differ, and why), `script` (the case
files in `cases/`), then the tests: `test_cases`, `test_blocking`, `test_random`, `test_glob`, `test_table`.
"""
