"""`anabranch pipeline lag`: how late entries arrive, and which an XREAD cursor skips.

Reading order:

- `arrivals`: when entries arrived in a region, and which an XREAD cursor skipped.
- `watching`: watches how far each region is.
- `from_watch`: the arrivals during a watch.
- `from_logs`: the arrivals of past hours, from the logs of the regions.
- `report`: the report of `lag`.
- `plots`: its plots.
- `job`: how late entries arrive.
"""
