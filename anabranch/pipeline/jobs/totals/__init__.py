"""`anabranch pipeline totals`: running counts and sums by key.

Reading order:

- `numbers`: exact sums of the values of fields.
- `state`: the state of running totals in Spark.
- `folder`: the checkpoint of running totals, and where they are put out.
- `report`: what a run of `totals` found.
- `job`: running totals by key.
"""
