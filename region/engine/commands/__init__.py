"""The commands, by what they are about; each file ends with its rows of the table.

`adding` (XADD, XDEL, XSETID), `trimming` (XTRIM), `xcfgset`, `reading` (XRANGE, XREAD …), `groups` (XGROUP), `group_reading` (XREADGROUP),
`pending` (XACK, XPENDING, XCLAIM, XAUTOCLAIM), `stream_info` (XINFO), `keys`, `expiry`, `transactions`, `replication` (CRDT.…),
`connection`, `client`, `configuration` (CONFIG), `introspection` (COMMAND), `operating`; `arguments` reads what they have in common.
"""
