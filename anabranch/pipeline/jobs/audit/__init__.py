"""`anabranch pipeline audit`: compares all regions, and lists every difference with its cause.

Reading order:

- `differences`: a difference between regions, and its causes.
- `comparison`: compares the state of a stream beside its entries.
- `entry_sets`: compares the entries of a range.
- `task`: one task of the audit.
- `report`: the report of the audit.
- `job`: compares all regions.
"""
