"""`anabranch pipeline lag`: watches how late entries arrive, and which an XREAD cursor skips.

Reading order:

- `arrivals`: when entries arrived in a region, and which an XREAD cursor skipped.
- `watching`: watches how far each region is.
- `report`: the report of `lag`.
- `plots`: its plots.
- `job`: how late entries arrive.
"""
