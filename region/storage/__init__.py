"""Storage, pure (S13.1): records in, (SQL, rows) out; rows in, state out. `region/database.py` runs the SQL.

`schema` (tables), `log` (commits and rows), `checkpoint` (state in slices), `loading` (a start).
"""
