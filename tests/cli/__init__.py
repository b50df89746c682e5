"""Tests of the command line, of the configuration, and of the HTTP server.

Reading order:

- `test_config`: the configuration of a region.
- `test_without_regions`: the parts of the command line that need no running region.
- `test_terminal`: escapes of control characters, plurals, columns.
- `test_passwords`: the sources of the password.
- `test_status`: the report of `anabranch status`, and its problems.
- `test_supervisor`: the restarts of `anabranch up`.
- `test_mistakes`: the message for each mistake of a user.
- `test_full_disk`: commands on a full disk.
- `test_http`: /metrics, /health and /ready.
- `test_serve_live`: `anabranch serve`.
- `test_up_live`: `anabranch up` and the commands that operate on a running cluster.
- `test_status_live`: `anabranch status` on live regions, in a terminal and in a pipe.
- `test_at_live`: `status` and `top` with ``--at``, and regions that are down.
- `test_events_live`: every event in the logs of live regions.
"""
