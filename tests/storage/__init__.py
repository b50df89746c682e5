"""Tests of storage (S13): a start finds the state of the last commit, whenever the process stopped.

Reading order:

- `direct`: the real `Database` on an SQLite connection in memory, without threads.
- `dump`: the state of a region as plain values, and the comparison of two states.
- `region`: one region under the real driver, judged by a start from a copy of its disk.
- `histories`: random histories of a small cluster whose regions crash.
- `test_crashes`: random histories with a start after every transaction.
- `test_steps`: the length of the steps of a checkpoint.
- `test_log`: the effect log as sync reads it, beside a naive list of rows.
- `test_start`: starts on damaged files, and the life and recovery that a start begins.
- `test_failing`: failing writes under the real process, with clients on sockets.
- `test_lost_files`: files that are removed or replaced under a running region.
- `test_checkpoints`: checkpoints that are cut off, and the starts after them.
- `test_replay`: starts that replay the log.
"""
