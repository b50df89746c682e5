"""`anabranch pipeline JOB`: the jobs on Spark. Each command checks its options and calls its job.

Reading order:

- `common`: options, regions, session and report of all jobs.
- `audit`: `anabranch pipeline audit`.
- `lag`: `anabranch pipeline lag`.
- `archive`: `anabranch pipeline archive` and `anabranch pipeline restore`.
- `sweep`: `anabranch pipeline sweep`.
"""
