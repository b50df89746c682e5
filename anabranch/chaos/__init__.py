"""Real regions under real faults: `anabranch chaos`.

Regions run as processes, with a toxiproxy server between them. Clients of redis-py write and read,
faults strike links and regions, and then judges compare what clients saw with what regions hold.

Reading order:

- `plan`: the faults, settings and clocks of a run, a function of its seed.
- `history`: what clients saw.
- `final_state`: what the regions hold and report at the end.
- `judges`: what must hold.
- `taped`: the judge `twin`, which replays the tapes of the regions.
- `other_build`: the build that regions change to and fro at their restarts.
- `regions`: the processes of a run, and the proxies between them.
- `breaking`: performs the faults of a plan.
- `clients`: what all clients share.
- `producers`: clients that add.
- `consumers`: clients of a group.
- `tailers`: clients that read with XREAD.
- `removers`: clients that remove and trim.
- `lookers`: clients that look at the whole state.
- `observer`: samples vectors, for the lag.
- `draining`: reads groups and streams to their ends.
- `timeline`: the picture of a run.
- `report`: the report of a run.
- `run`: one run from its beginning to its verdict.
- `mutants`: bugs planted in a copy of the tree, to see whether a run finds them.
"""
