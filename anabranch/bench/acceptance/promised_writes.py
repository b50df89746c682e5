"""Clients that write to one region, and remember what it has answered.

Each client writes keys of its own, until the region is gone or it is told to stop. Afterwards it
asks any region whether everything is there that was promised to it.
"""

from __future__ import annotations

import random
import threading
from typing import Any

from anabranch.cluster.client import RespClient
from anabranch.cluster.errors import ClusterError, ConnectionFailed
from anabranch.cluster.regions import RegionProcess
from anabranch.region.resp.decoder import ErrorText

CALL_PATIENCE_S = 15.0
_PAGE = 1000
_SIZES = (10, 10, 100, 1000, 30_000)
_BIG_SIZES = (300_000, 1_000_000, 4_000_000)


class Client:
    """One client. `answered` counts the writes that the region has answered."""

    def __init__(self, region: RegionProcess, number: int, seed: str) -> None:
        self.region = region
        self.key = f"{type(self).__name__.lower()}:{region.name}:{number}"
        self.answered = 0
        self.wrong: list[str] = []
        self.draw = random.Random(f"{seed}/{self.key}")
        self._stop = threading.Event()
        self._client: RespClient | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._number = 0

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def stop(self) -> None:
        """Asks it to stop."""
        self._stop.set()

    def join(self) -> None:
        """Waits for its end; ClusterError if it waits for an answer for ever."""
        self._thread.join(CALL_PATIENCE_S + 5)
        if self._thread.is_alive():
            raise ClusterError(f"{self.key} does not end")

    def _run(self) -> None:
        try:
            with self.region.connect(CALL_PATIENCE_S) as client:
                self.begin(client)
                while not self._stop.is_set():
                    self.act(client)
        except ConnectionFailed as error:
            if "timed out" in str(error):
                self.wrong.append(f"{self.key} got no answer: {error}")
        except ClusterError as error:
            self.wrong.append(f"{self.key}: {error}")

    def next_number(self) -> int:
        """A number that this client has not used."""
        self._number += 1
        return self._number

    def value(self) -> bytes:
        """A value, which is big at times."""
        size = self.draw.choice(_BIG_SIZES if self.draw.random() < 0.02 else _SIZES)
        return b"%c" % self.draw.randrange(97, 123) * size

    # -- what each kind of client does

    def begin(self, client: RespClient) -> None:
        """Does what comes before the first act."""

    def act(self, client: RespClient) -> None:
        """Writes once, and remembers the answer."""
        raise NotImplementedError

    def settle(self, client: RespClient) -> None:
        """Writes once more what was not answered, after the region is back."""

    def broken(self, client: RespClient) -> str:
        """Asks a region for what was promised; says what is missing, or nothing."""
        raise NotImplementedError


def entries(client: RespClient, key: str) -> dict[bytes, list[bytes]]:
    """All entries of a stream: ID → fields and values."""
    found: dict[bytes, list[bytes]] = {}
    start = "-"
    while page := client.ask("XRANGE", key, start, "+", "COUNT", _PAGE):
        found.update((entry_id, fields) for entry_id, fields in page)
        start = "(" + page[-1][0].decode()
    return found


class Adder(Client):
    """Adds single entries, or many in a pipeline, and removes some of them."""

    def __init__(self, region: RegionProcess, number: int, seed: str) -> None:
        super().__init__(region, number, seed)
        # ID → number and size of the value. Those whose removal was asked for, and answered.
        self.added: dict[bytes, tuple[int, int]] = {}
        self.doomed: set[bytes] = set()
        self.removed: set[bytes] = set()

    def act(self, client: RespClient) -> None:
        if self.draw.random() < 0.1 and self.added:
            chosen = self.draw.sample(sorted(self.added), min(len(self.added), 5))
            self.doomed.update(chosen)
            client.ask("XDEL", self.key, *chosen)
            self.removed.update(chosen)
            return
        many = self.draw.choice([1, 1, 1, 5, 200])
        values = [self.value() if many < 100 else b"x" for _ in range(many)]
        numbers = [self.next_number() for _ in values]
        for number, value in zip(numbers, values, strict=True):
            client.send("XADD", self.key, "*", "n", number, "v", value)
        for number, value in zip(numbers, values, strict=True):
            entry_id = client.read()
            if isinstance(entry_id, bytes):
                self.added[entry_id] = (number, len(value))
                self.answered += 1
            elif not is_for_memory(entry_id):
                self.wrong.append(f"XADD answered {entry_id!r}")

    def broken(self, client: RespClient) -> str:
        found = entries(client, self.key)
        if returned := self.removed & found.keys():
            return f"{len(returned)} removed entries, {sorted(returned)[:3]}"
        for entry_id, (number, size) in self.added.items():
            if entry_id in self.doomed:
                continue
            fields = found.get(entry_id)
            if fields is None:
                return f"entry {entry_id!r} is missing of {len(self.added)}"
            if int(fields[1]) != number or len(fields[3]) != size:
                return f"entry {entry_id!r} is another one"
        return ""


class Idempotent(Client):
    """Adds with idempotent IDs. An add without an answer is repeated until it has one."""

    def act(self, client: RespClient) -> None:
        many = self.draw.choice([1, 3, 30])
        numbers = [self.next_number() for _ in range(many)]
        for number in numbers:
            self._add(client, number)
        for _ in numbers:
            reply = client.read()
            if isinstance(reply, bytes):
                self.answered += 1
            elif not is_for_memory(reply):
                self.wrong.append(f"XADD IDMP answered {reply!r}")

    def _add(self, client: RespClient, number: int) -> None:
        client.send("XADD", self.key, "IDMP", "p", f"i{number}", "*", "n", number)

    def settle(self, client: RespClient) -> None:
        for number in range(1, self._number + 1):
            self._add(client, number)
            reply = client.read()
            if not isinstance(reply, bytes):
                self.wrong.append(f"XADD IDMP, repeated, answered {reply!r}")

    def broken(self, client: RespClient) -> str:
        found = sorted(int(fields[1]) for fields in entries(client, self.key).values())
        if found != list(range(1, self._number + 1)):
            return f"{len(found)} entries for {self._number} idempotent IDs"
        return ""


class Worker(Client):
    """Adds to a stream, reads it with a group, and acknowledges, many entries at once at times."""

    def __init__(self, region: RegionProcess, number: int, seed: str) -> None:
        super().__init__(region, number, seed)
        self.acknowledged: set[bytes] = set()

    def begin(self, client: RespClient) -> None:
        client.ask("XGROUP", "CREATE", self.key, "g", "0", "MKSTREAM")

    def act(self, client: RespClient) -> None:
        for _ in range(self.draw.choice([1, 10, 100])):
            client.send("XADD", self.key, "*", "n", self.next_number())
        client.send("PING")
        while (reply := client.read()) != b"PONG":
            self.answered += isinstance(reply, bytes)
        read: Any = client.call(
            *("XREADGROUP", "GROUP", "g", "c", "COUNT", self.draw.choice([1, 10, 100])),
            *("STREAMS", self.key, ">"),
        )
        if not isinstance(read, list):
            return
        ids = [entry_id for entry_id, _ in read[0][1]]
        if isinstance(client.call("XACK", self.key, "g", *ids), int):
            self.acknowledged.update(ids)
            self.answered += len(ids)

    def broken(self, client: RespClient) -> str:
        if not self.acknowledged:
            return ""
        pending: Any = client.ask("XPENDING", self.key, "g", "-", "+", 1_000_000)
        again = self.acknowledged & {row[0] for row in pending}
        return f"{len(again)} acknowledged entries are pending again" if again else ""


class Buyer(Client):
    """Adds to two streams in a transaction: both have an entry, or none."""

    def __init__(self, region: RegionProcess, number: int, seed: str) -> None:
        super().__init__(region, number, seed)
        self.done: set[int] = set()

    def act(self, client: RespClient) -> None:
        number = self.next_number()
        client.send("MULTI")
        client.send("XADD", f"{self.key}:a", "*", "n", number, "v", self.value())
        client.send("XADD", f"{self.key}:b", "*", "n", number)
        client.send("EXEC")
        replies = [client.read() for _ in range(4)]
        if isinstance(replies[3], list):
            self.done.add(number)
            self.answered += 2
        elif not any(map(is_for_memory, replies)):
            self.wrong.append(f"EXEC answered {replies[3]!r}")

    def broken(self, client: RespClient) -> str:
        first, second = (
            {int(fields[1]) for fields in entries(client, f"{self.key}:{part}").values()}
            for part in "ab"
        )
        if first != second:
            return f"{len(first ^ second)} halves of transactions"
        return f"{len(self.done - first)} transactions are missing" if self.done - first else ""


class Visitor(Client):
    """Sends commands of all kinds, to whose answers it does not listen."""

    def act(self, client: RespClient) -> None:
        draw = self.draw
        key, other = f"{self.key}:{draw.randrange(5)}", f"{self.key}:{draw.randrange(5)}"
        lines: list[tuple[str | bytes | int, ...]] = [
            ("XADD", key, "MAXLEN", "~", "50", "*", "f", self.value()),
            ("XADD", key, "*", *map(str, range(2 * draw.choice([1, 20, 500])))),
            ("XTRIM", key, "MAXLEN", draw.randrange(60)),
            ("XGROUP", "CREATE", key, f"g{draw.randrange(3)}", draw.choice("0$"), "MKSTREAM"),
            ("XGROUP", "DESTROY", key, f"g{draw.randrange(3)}"),
            ("XREADGROUP", "GROUP", "g0", "c", "COUNT", 20, "STREAMS", key, ">"),
            ("XAUTOCLAIM", key, "g0", "d", 0, "0"),
            ("XSETID", key, f"{1 << 45}-0"),
            ("XINFO", "STREAM", key, "FULL", "COUNT", 0),
            ("XRANGE", key, "-", "+"),
            ("XREAD", "BLOCK", 5, "STREAMS", key, other, "$", "$"),
            ("EXPIRE", key, draw.randrange(-1, 5)),
            ("RENAME", key, other),
            ("DEL", key, other),
            ("SCAN", "0", "COUNT", 1000),
            ("INFO", "everything"),
            ("CRDT.DIGEST",),
            ("CRDT.EXPLAIN", key),
            ("CRDT.HISTORY", key, "NEWEST", 50),
            ("CRDT.PEERS",),
        ]
        chosen = draw.choices(lines, k=draw.choice([1, 1, 10]))
        for words in chosen:
            client.send(*words)
        for _ in chosen:
            client.read()

    def broken(self, client: RespClient) -> str:
        return ""


KINDS = (Adder, Adder, Idempotent, Worker, Buyer, Visitor)


def is_for_memory(reply: object) -> bool:
    """Whether a write was refused because the disk, the memory or a bound did not allow it."""
    return isinstance(reply, ErrorText) and reply.text.split(" ")[0] in ("OOM", "MISCONF")
