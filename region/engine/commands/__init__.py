"""The commands, by what they are about; each file ends with its rows of the table.

`adding` (XADD, XTRIM, XDEL, XSETID, XCFGSET), `reading` (XRANGE, XREAD …), `groups` (XGROUP), `group_reading` (XREADGROUP), `pending`
(XACK, XPENDING, XCLAIM, XAUTOCLAIM), `stream_info` (XINFO), `keys`, `expiry`, `transactions`, `replication` (CRDT.…), `connection`,
`introspection`; `arguments` reads what they have in common.
"""
