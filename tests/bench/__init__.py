"""The table of `anabranch bench`, without assertions on speed.

Reading order:

- `test_rows`: the table of rows is complete, and each row has what measures it.
- `test_values`: values, results and their files.
- `test_printing`: lines and tables.
- `test_client`: the pipelining client, against a server that answers as told.
- `test_workloads`: request bytes, and sizes of replies beside a real redis-server.
- `test_performance`: the program: options, the comparison with recorded rows, a short live run.
- `test_first_run`: fresh copies, and the ends of what runs in them.
- `test_page`: docs/performance.md has all rows.
"""
