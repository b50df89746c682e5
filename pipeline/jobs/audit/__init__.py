"""`anabranch pipeline audit`: compares all regions, and lists every difference with its cause.

Reading order:

- `differences`: a difference between regions, and its causes.
- `key_state`: compares the state of a stream beside its entries.
- `entry_sets`: compares the entries of a range.
- `door`: one region as the audit asks it.
- `task`: one task of the audit.
- `report`: the report of the audit.
- `job`: compares all regions.
"""
