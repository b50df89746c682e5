"""Client libraries of several languages, against two live regions and a real redis-server.

A program for each library goes through one scenario and prints, as one line of JSON, what it saw.
It runs twice: with redis-server, and with two regions, of which it writes in one and reads in the
other. Both must show what `programs.EXPECTED` lists. The programs use the defaults of their
libraries. `make test-clients` installs the libraries, in the pinned versions, below the environment
(`.clients`); LANGUAGES chooses among python, node, go and java.

The scenario: create a group with its stream, twice; read from a group that does not exist; add with
`*` a value of 100 kB, and WAIT; wait for an entry that is added in the other region; key and value
that are not UTF-8; pipeline; transaction; read with the group; acknowledge some;
list what is pending; claim it with another consumer; ranges; reads that time out; a scan of 1,500
keys with COUNT 10, which must give each key once; another command after CLIENT KILL. FastStream and
Watermill have scenarios of their own: a handler fails, and another consumer claims its messages.

Reading order:

- `programs`: runs a program, and has the results that are expected.
- `conftest`: two regions and a redis-server, with the keys that are scanned.
- `test_python`: redis-py with RESP2, RESP3 and asyncio; FastStream.
- `test_node`: node-redis 5 and 4, ioredis.
- `test_go`: go-redis, redigo, rueidis, Watermill.
- `test_java`: Jedis, Lettuce, Redisson.
"""
