"""Differential tests: the same commands to a live redis-server and to the engine.

The replies must be equal byte for byte, apart from the documented differences (S15).

Reading order:

- `replies`: reading RESP replies.
- `sides`: the two servers under comparison.
- `settled`: the permitted differences, and their reasons.
- `script`: the format of the case files in `cases/`.
- `conftest`: the fixture that makes pairs of servers.
- `test_cases`: the case files.
- `test_blocking`: commands that block.
- `test_trimming`: approximate trimming.
- `test_random`: random sequences of commands.
- `test_glob`: glob patterns.
- `test_table`: the command table.
"""
