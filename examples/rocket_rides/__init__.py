"""Rocket Rides: a unified log that two regions write, with consumers whose totals agree.

`python -m examples.rocket_rides --rides 10000 --seed 7` runs everything. docs/rocket-rides.md tells
the story. "The article" in comments is "Redis Streams and the Unified Log" (Brandur Leach, 2017),
whose system this is.

Reading order:

- `records`: rides, entry IDs and checkpoints, as values.
- `database`: transactions in SQLite or PostgreSQL.
- `tables`: the tables of a region's database.
- `ride_log`: the stream, in whichever region answers.
- `mishaps`: the seeded choice of double sends and crashes.
- `api`: POST /rides writes a ride and a staged record in one transaction.
- `streamer`: moves staged records into the stream.
- `consumer`: keeps totals and checkpoints in one transaction.
- `spark_consumer`: the same as a Spark job, with the batch number in that transaction.
- `trimmer`: trims the stream below what every consumer has processed.
- `reconciliation`: compares consumers and stream with the rides of the API.
- `load`: sends rides to the API of each region.
- `fleet`: the processes of a run.
- `cluster`: the regions of a run, and the partition between them.
- `progress`: the totals of all consumers up to the same ride.
- `run`: one run, from the start of the regions to the reconciliation.
- `report`: the live table, and the report at the end.
- `whole_run`: the command line of a whole run.
- `parts`: the command line of one process of a run.
- `__main__`: chooses between the two.
"""
