"""`anabranch pipeline lag`: how late entries arrive, and which an XREAD cursor skips.

Reading order:

- `arrivals`: the arrivals of past hours, from the logs of the regions.
- `redeliveries`: pending entries that were delivered more than once.
- `report`: the report of `lag`.
- `plots`: its plots.
- `job`: how late entries arrive.
"""
