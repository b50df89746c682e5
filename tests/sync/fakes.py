"""A region without commands, and a network of hubs without sockets or clocks.

The engine applies blocks to a set, and keeps its log in memory. A block's body names the effects
that its region had applied before it, so that `FakeEngine.merge` notices every breach of causal
order (S2.1).
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Optional

from anabranch.crdt.block import NO_CHAIN, Block, chain_after
from anabranch.crdt.errors import ChainForked, NotAMember, PeerError, SyncGap
from anabranch.crdt.gossip import Gossip, Heard, StartAnswer, StartQuestion
from anabranch.crdt.vector import includes, joined, raise_to
from anabranch.region.engine.clock import EngineClock, SteadyClock
from anabranch.region.engine.lifecycle import Lifecycle
from anabranch.region.engine.settings import Settings
from anabranch.sync.session.codec import decode_down, decode_up, encode_down, encode_up
from anabranch.sync.session.hub import Hub
from anabranch.sync.session.links import NOBODY, OtherEnd
from anabranch.sync.session.log_requests import CheckChains, Locate, ReadBlock, ReadLog
from anabranch.sync.session.log_tail import LogTail
from anabranch.sync.session.messages import Message
from anabranch.sync.session.work import HubWork

# A tail of the log that holds everything, and one that holds the newest block only.
WHOLE_TAIL = 1 << 30
SHORT_TAIL = 1

NAMES = {1: "us", 2: "eu", 3: "ap", 4: "sa", 5: "af"}


class FakeMember:
    def __init__(self, region_id: int, name: str) -> None:
        self.region_id = region_id
        self.name = name
        self.lost = False


class FakeRow:
    """A row of the log: a block, a snapshot with the vector `joined`, or else a local record."""

    def __init__(
        self, position: int, block: Optional[Block], joined: Optional[dict[int, int]] = None
    ) -> None:
        self.position = position
        self.block = block
        self.joined = joined


class FakeAttestation:
    def __init__(self, engine: FakeEngine, with_digest: bool, now_ms: int) -> None:
        self.vector = dict(engine.vector)
        self.clock_ms = self.told_ms = now_ms
        self.digest = engine.digest() if with_digest else b""
        self.position = engine.position
        self.life = engine.life
        self.counts = True
        self.asks_stable = False
        self.lost = [one.region_id for one in engine.members.values() if one.lost]
        self.read_ms = now_ms
        self.ahead: dict[int, int] = {}


class FakeCut:
    def __init__(self, engine: FakeEngine) -> None:
        self.position = engine.position
        self.vector = dict(engine.vector)
        self.chains = dict(engine.chains)
        self._state = {
            "vector": self.vector,
            "chains": {k: v.hex() for k, v in self.chains.items()},
            "held": sorted(engine.held),
        }

    def chunks(self, bytes_max: int) -> Iterator[bytes]:
        data = json.dumps(self._state).encode()
        for start in range(0, len(data), bytes_max):
            yield data[start : start + bytes_max]


class FakeLog:
    """The committed log, with its tail as the driver keeps it. `reads` counts reads of rows."""

    def __init__(self, tail_bytes: int) -> None:
        self.rows: list[FakeRow] = []
        self.tail = LogTail(0, {}, tail_bytes)
        self.reads = 0

    def commit(self, rows: list[FakeRow], position: int) -> None:
        for row in rows:
            if row.joined is not None:
                self.tail.raise_floor(row.joined)
        self.rows += rows
        for row in rows:
            if row.joined is not None:
                self.tail.restart(row.position)
            elif row.block is not None:
                self.tail.append(row)  # type: ignore[arg-type]  # its block is there
        self.tail.committed(position)

    def truncate(self, rows_kept: int) -> None:
        """Retention: all but the newest rows go."""
        floor: dict[int, int] = {}
        gone = self.rows[: max(len(self.rows) - rows_kept, 0)]
        for row in gone:
            if row.block is not None:
                raise_to(floor, {row.block.origin: row.block.last})
        if gone:
            self.tail.cut_off(gone[-1].position, floor)
            self.rows = self.rows[len(gone) :]

    def read(self, position: int, bytes_max: int) -> list[FakeRow]:
        self.reads += 1
        result: list[FakeRow] = []
        size = 0
        for row in self.rows:
            if row.position <= position or row.block is None:
                continue
            size += len(row.block.body)
            if result and size > bytes_max:
                break
            result.append(row)
        return result

    def locate(self, vector: dict[int, int]) -> Optional[int]:
        for row in self.rows:
            if row.block is not None and vector.get(row.block.origin, 0) < row.block.last:
                return row.position - 1
        return None

    def block(self, origin: int, counter: int) -> Optional[Block]:
        for row in self.rows:
            if (
                row.block is not None
                and row.block.origin == origin
                and row.block.first <= counter <= row.block.last
            ):
                return row.block
        return None

    def chain(self, origin: int, counter: int) -> Optional[bytes]:
        found = self.block(origin, counter)
        return found.chain if found is not None and found.last == counter else None

    def answer(self, request: Any) -> Any:
        """What the database says to a question."""
        if isinstance(request, ReadLog):
            return self.read(request.position, request.bytes_max)
        if isinstance(request, Locate):
            return self.locate(request.vector)
        if isinstance(request, ReadBlock):
            return self.block(request.origin, request.counter)
        assert isinstance(request, CheckChains)
        for origin, chain in sorted(request.chains.items()):
            if self.chain(origin, request.vector[origin]) not in (None, chain):
                return origin
        return 0


class FakeLinkRequest:
    def __init__(self, peer: int, action: str, delay_ms: int, limit_bytes_s: int) -> None:
        self.peer, self.action = peer, action
        self.delay_ms, self.limit_bytes_s = delay_ms, limit_bytes_s


class FakeEngine:
    def __init__(
        self,
        region_id: int,
        members: dict[int, str],
        cluster: str = "c",
        name: str = "",
        life: int = 1,
        tail_bytes: int = WHOLE_TAIL,
    ) -> None:
        self.cluster = cluster
        self.region_id = region_id
        self.name = name or members.get(region_id, NAMES[region_id])
        self.members = {rid: FakeMember(rid, member) for rid, member in members.items()}
        self.life = life
        self.process = 0
        self.place = ""
        self.log = FakeLog(tail_bytes)
        self.vector: dict[int, int] = {}
        self.chains: dict[int, bytes] = {}
        self.held: set[tuple[int, int, str]] = set()  # (origin, counter, payload)
        self.position = 0
        self.pending: list[FakeRow] = []
        self.disk_vector: dict[int, int] = {}
        self.disk_chains: dict[int, bytes] = {}
        self.committed_position = 0
        self.collected: dict[int, int] = {}
        # What it asks the others, as a start does; None: it serves.
        self.question: Optional[StartQuestion] = None
        self.holds_all_own = False
        self.rebuilds_from = 0
        self.clock_ms = 0
        # -- what sync told it
        self.lives: dict[int, int] = {}
        self.start_answers: list[tuple[int, StartAnswer]] = []
        self.states: dict[int, tuple[str, str]] = {}
        self.refusals: list[str] = []
        # What is shown of peers that run twice.
        self.doubles: dict[int, str] = {}
        self.gaps = 0
        self.lost_by: list[int] = []
        self.receivers: set[int] = set()
        self.peers_hold: dict[int, dict[int, int]] = {}
        self.peer_acks: dict[int, dict[int, int]] = {}
        # (peer, "sent" or "received") → bytes of messages.
        self.carried: Counter[tuple[int, str]] = Counter()
        self.heard: dict[int, Heard] = {}
        self.compared: list[bool] = []
        self.requests: list[FakeLinkRequest] = []
        self.down: set[int] = set()
        self.slow: dict[int, dict[str, int]] = {}  # peer → DELAY and LIMIT in force
        self.merged: list[tuple[int, int, int]] = []  # (source, origin, last)
        self.joins = 0
        # The chunks of a snapshot that were read ahead; None: nothing is held.
        self.ahead: Optional[list[bytes]] = None

    # -- what tests do

    def write(self, payload: str = "", count: int = 1) -> None:
        first = self.vector.get(self.region_id, 0) + 1
        last = first + count - 1
        body = json.dumps({"deps": self.vector, "payload": payload}).encode()
        chain = chain_after(self.chains.get(self.region_id, NO_CHAIN), body)
        self._apply(Block(self.region_id, first, last, body, chain))

    def local_record(self) -> None:
        self.position += 1
        self.pending.append(FakeRow(self.position, None))

    def commit(self) -> list[FakeRow]:
        rows, self.pending = self.pending, []
        self.log.commit(rows, self.position)
        self.committed_position = self.position
        self.disk_vector, self.disk_chains = dict(self.vector), dict(self.chains)
        return [row for row in rows if row.block is not None]

    def link(self, peer: int, action: str, value: int = 0) -> None:
        slow = self.slow.setdefault(peer, {"DELAY": 0, "LIMIT": 0})
        if action in slow:
            slow[action] = value
        self.requests.append(FakeLinkRequest(peer, action, slow["DELAY"], slow["LIMIT"]))
        if action == "DOWN":
            self.down.add(peer)
        elif action == "UP":
            self.down.discard(peer)

    def digest(self) -> bytes:
        return hash(frozenset(self.held)).to_bytes(16, "big", signed=True)

    # -- what sync calls

    def _apply(self, block: Block) -> None:
        self.vector[block.origin] = block.last
        self.chains[block.origin] = block.chain
        self.held.add((block.origin, block.last, json.loads(block.body)["payload"][:16]))
        self.position += 1
        self.pending.append(FakeRow(self.position, block))

    def want_commit(self) -> None:
        """Whatever is there is committed in every step."""

    def refreshes_clock(self, now_ms: int) -> bool:
        return False

    def attest(self, with_digest: bool, now_ms: int) -> FakeAttestation:
        return FakeAttestation(self, with_digest, now_ms)

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        if source in self.down:
            return
        for block in blocks:
            if block.origin not in self.members:
                raise NotAMember(f"effect of region {block.origin}")
            applied = self.vector.get(block.origin, 0)
            if block.last <= applied:
                continue
            if block.first != applied + 1:
                raise SyncGap(f"{block.origin}: {block.first} after {applied}")
            if chain_after(self.chains.get(block.origin, NO_CHAIN), block.body) != block.chain:
                raise ChainForked(f"{block.origin}: {block.first}")
            deps = {int(rid): counter for rid, counter in json.loads(block.body)["deps"].items()}
            assert includes(self.vector, deps), (
                f"{self.name} got {block.origin}:{block.last} before {deps}, has {self.vector}"
            )
            self._apply(block)
            self.merged.append((source, block.origin, block.last))

    def newest_life(self, peer: int) -> int:
        return self.lives.get(peer, 0)

    def may_answer(self, lost: Collection[int]) -> bool:
        return {one for one, member in self.members.items() if member.lost}.issuperset(lost)

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        raise_to(self.lives, lives)

    def peer_holds(self, peer: int, vector: dict[int, int], now_ms: int) -> None:
        self.peers_hold[peer] = dict(vector)

    def start_question(self) -> Optional[StartQuestion]:
        return self.question

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        self.hear_lives({peer: answer.life}, now_ms)
        self.start_answers.append((peer, answer))

    def gossip(self) -> Gossip:
        return Gossip(list(self.heard.values()), [], [])

    def hear(self, gossip: Gossip, now_ms: int) -> None:
        for question in gossip.questions:
            self.hear_lives({**question.lives, question.asker: question.life}, now_ms)
        for heard in gossip.heard:
            self.hear_lives({heard.region_id: heard.life}, now_ms)
            known = self.heard.get(heard.region_id)
            if known is None or (known.life, known.clock_ms) < (heard.life, heard.clock_ms):
                self.heard[heard.region_id] = heard

    def receiver_opened(self, peer: int) -> None:
        assert peer not in self.receivers
        self.receivers.add(peer)

    def receiver_closed(self, peer: int) -> None:
        self.receivers.remove(peer)

    def acknowledged(self, peer: int, vector: dict[int, int], now_ms: int) -> None:
        self.peer_acks[peer] = dict(vector)

    def message_sent(self, peer: int, size: int) -> None:
        self.carried[peer, "sent"] += size

    def message_received(self, peer: int, size: int) -> None:
        self.carried[peer, "received"] += size

    def reports_vector(self, peer: int) -> None:
        pass

    @property
    def peers(self) -> FakeEngine:
        """The calls for other regions, which this class has itself."""
        return self

    @property
    def links(self) -> FakeEngine:
        """The calls for links, which this class has itself."""
        return self

    @property
    def snapshots(self) -> FakeEngine:
        """The calls for snapshots, which this class has itself."""
        return self

    def is_in_state(self, peer: int, state: str, detail: str) -> None:
        self.states[peer] = (state, detail)

    def called_lost(self, peer: int) -> None:
        self.lost_by.append(peer)

    def refused(self, reason: str) -> None:
        self.refusals.append(reason)

    def is_encrypted(self, peer: int, encrypted: bool) -> None:
        pass

    def runs_twice(self, peer: int, detail: str) -> None:
        self.doubles[peer] = detail

    def log_has_gap(self) -> None:
        self.gaps += 1

    def take_requests(self) -> list[FakeLinkRequest]:
        requests, self.requests = self.requests, []
        return requests

    def compare_digest(self, vector: dict[int, int], digest: bytes) -> None:
        if vector == self.vector:
            self.compared.append(digest == self.digest())

    def prepare_cut(self) -> bool:
        return True

    def drop_preparation(self) -> None:
        pass

    def cut(self) -> FakeCut:
        return FakeCut(self)

    def read_ahead(self, chunks: list[bytes]) -> None:
        self.ahead = chunks

    def drop_read_ahead(self) -> None:
        self.ahead = None

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        state = json.loads(b"".join(chunks))
        vector = {int(rid): counter for rid, counter in state["vector"].items()}
        for rid, chain in state["chains"].items():
            if vector[int(rid)] > self.vector.get(int(rid), 0):
                self.chains[int(rid)] = bytes.fromhex(chain)
        self.vector = joined(self.vector, vector)
        self.held |= {(rid, counter, payload) for rid, counter, payload in state["held"]}
        self.position += 1
        self.pending.append(FakeRow(self.position, None, vector))
        self.joins += 1


class StartingEngine(FakeEngine):
    """It issues nothing before its start is over, which the real state machine decides (S13.6)."""

    def __init__(self, region_id: int, members: dict[int, str], life: int) -> None:
        super().__init__(region_id, members, life=life)
        patience_ms = 1 << 40
        self.lifecycle = Lifecycle(region_id, life, 0, EngineClock(life), patience_ms)

    def on_disk(self, life: int) -> StartingEngine:
        """A region in that life that finds what is on this one's disk."""
        twin = StartingEngine(
            self.region_id, {rid: member.name for rid, member in self.members.items()}, life
        )
        twin.vector = dict(self.disk_vector)
        twin.chains = dict(self.disk_chains)
        twin.disk_vector, twin.disk_chains = dict(twin.vector), dict(twin.chains)
        twin.held = {one for one in self.held if one[1] <= twin.vector.get(one[0], 0)}
        twin.position = twin.committed_position = self.committed_position
        twin.log.commit(list(self.log.rows), self.committed_position)
        twin.log.tail.raise_floor(self.log.tail.floor)
        return twin

    def hear_lives(self, lives: dict[int, int], now_ms: int) -> None:
        super().hear_lives(lives, now_ms)
        for region_id, life in lives.items():
            if region_id != self.region_id:
                self.lifecycle.hear_life(region_id, life)

    def start_question(self) -> Optional[StartQuestion]:
        return self.lifecycle.start_question()

    def start_answered(self, peer: int, answer: StartAnswer, now_ms: int) -> None:
        super().start_answered(peer, answer, now_ms)
        self._check_held_by_peer(answer.vector)
        others = [one for one in self.members if one != self.region_id]
        self.lifecycle.start_answered(peer, answer, others)

    def peer_holds(self, peer: int, vector: dict[int, int], now_ms: int) -> None:
        super().peer_holds(peer, vector, now_ms)
        self._check_held_by_peer(vector)

    def merge(self, blocks: list[Block], source: int, now_ms: int) -> None:
        for block in blocks:
            self._check_held_by_peer({block.origin: block.last})
        super().merge(blocks, source, now_ms)

    def join(self, chunks: list[bytes], source: int, now_ms: int) -> None:
        before = self.vector.get(self.region_id, 0)
        super().join(chunks, source, now_ms)
        if self.vector.get(self.region_id, 0) > before:
            self._enter_recovery()

    def _check_held_by_peer(self, held: dict[int, int]) -> None:
        if held.get(self.region_id, 0) > self.vector.get(self.region_id, 0):
            self._enter_recovery()

    def _enter_recovery(self) -> None:
        self.lifecycle.enter_recovery()
        self.life = self.lifecycle.life


class FakeDriver:
    """The links of one region: a hub, and a disk that writes and answers at once."""

    def __init__(
        self, engine: FakeEngine, settings: Settings, peers: Iterable[int], clock: Callable[[], int]
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.hub = Hub(engine, settings, peers, engine.log.tail, SteadyClock(clock()))

    def step(self) -> HubWork:
        """Merges, commits and answers what was asked of the log; returns what is left to do."""
        hub, now_ms = self.hub, self.clock()
        while hub.merge_some(1 << 18, now_ms):
            pass
        self.engine.commit()
        hub.committed(now_ms)
        hub.apply_link_requests(now_ms)
        hub.ask_for_start()
        work = hub.take_work()
        for number, request in work.requests:
            hub.answered(number, request, self.engine.log.answer(request), now_ms)
        return work

    # -- what carries connections calls

    def dialled(self, peer: int, end: OtherEnd = NOBODY) -> Optional[int]:
        return self.hub.dial_opened(peer, self.clock(), end)

    def dial_failed(self, peer: int, text: str) -> None:
        self.hub.dial_failed(peer, text, self.clock())

    def accepted(self, end: OtherEnd = NOBODY) -> int:
        return self.hub.accepted(self.clock(), end)

    def turned_away(self, address: str, reason: str) -> None:
        self.hub.turned_away(address, reason, self.clock())

    def received(self, connection: int, message: Message, size: int = 0) -> None:
        self.hub.received(connection, message, self.clock())
        self.hub.arrived(connection, size)

    def reads_on(self, connection: int) -> bool:
        return self.hub.reads_on(connection)

    def malformed(self, connection: int, error: PeerError) -> None:
        self.hub.malformed(connection, error, self.clock())

    def disconnected(self, connection: int, text: str) -> None:
        self.hub.closed(connection, text, self.clock())

    def next_message(self, connection: int) -> Optional[Message]:
        return self.hub.next_message(connection)

    def is_over(self, connection: int) -> bool:
        return self.hub.finished(connection)

    def sent(self, connection: int, size: int) -> None:
        self.hub.sent(connection, size)

    def compression(self) -> str:
        return "zstd"

    def leave(self) -> None:
        self.hub.leave()


class Pipe:
    """A connection between two hubs: bytes in flight, both ways."""

    def __init__(self, dialler: int, acceptor: int, up_number: int, down_number: int) -> None:
        self.dialler, self.acceptor = dialler, acceptor
        self.numbers = {dialler: up_number, acceptor: down_number}
        self.flight: dict[int, deque[bytes]] = {
            dialler: deque(),
            acceptor: deque(),
        }  # by destination
        self.ended: set[int] = set()


class World:
    """Regions, and links `(dialler, acceptor)`.

    Everything happens in `step`, in an order drawn from `seed`.
    """

    def __init__(
        self,
        links: list[tuple[int, int]],
        seed: int = 0,
        settings: Optional[dict[str, Any]] = None,
        tail_bytes: int = WHOLE_TAIL,
    ) -> None:
        self.random = random.Random(seed)
        self.now_ms = 10_000_000
        self.settings = Settings(
            {"crdt-heartbeat-interval-ms": 50, "crdt-snapshot-patience-ms": 500, **(settings or {})}
        )
        self.tail_bytes = tail_bytes
        self.topology = links
        members = {rid: NAMES[rid] for rid in sorted({rid for link in links for rid in link})}
        self.members = members
        self.engines = {rid: FakeEngine(rid, members, tail_bytes=tail_bytes) for rid in members}
        self.drivers: dict[int, FakeDriver] = {}
        self.hubs: dict[int, Hub] = {}
        self.pipes: list[Pipe] = []
        self.cut_links: set[tuple[int, int]] = set()
        self.paused: set[int] = set()  # regions that read nothing
        self.notes: list[str] = []
        self.said: list[tuple[int, int, Any]] = []  # (from, to, message)
        for rid in members:
            self.start(rid)

    def start(self, rid: int) -> None:
        peers = [acceptor for dialler, acceptor in self.topology if dialler == rid]
        self.take_over(rid, FakeDriver(self.engines[rid], self.settings, peers, self._clock))

    def take_over(self, rid: int, driver: FakeDriver) -> None:
        """From now on that driver stands where region `rid` is dialled."""
        self.drivers[rid] = driver
        self.hubs[rid] = driver.hub

    def _clock(self) -> int:
        return self.now_ms

    # -- faults

    def cut(self, one: int, other: int) -> None:
        self.cut_links |= {(one, other), (other, one)}
        self.drop(one, other)

    def heal(self, one: int, other: int) -> None:
        self.cut_links -= {(one, other), (other, one)}

    def drop(self, one: int, other: int) -> None:
        """Connections between the two break; what is in flight is lost."""
        for pipe in list(self.pipes):
            if {pipe.dialler, pipe.acceptor} == {one, other}:
                self.pipes.remove(pipe)
                for rid in (pipe.dialler, pipe.acceptor):
                    self.hubs[rid].closed(pipe.numbers[rid], "dropped", self.now_ms)

    def lose_silently(self, one: int, other: int) -> None:
        """The connection is gone for the dialler only.

        The acceptor learns of it by the next Hello.
        """
        for pipe in list(self.pipes):
            if (pipe.dialler, pipe.acceptor) == (one, other):
                self.pipes.remove(pipe)
                self.hubs[one].closed(pipe.numbers[one], "reset", self.now_ms)

    def put_back(self, rid: int, life: int, starts: bool = False) -> None:
        """The region goes on with nothing, in a later life. Its peers still hold their connections.

        `starts`: it asks the others what they hold before it issues anything (S13.6).
        """
        self.pipes = [pipe for pipe in self.pipes if rid not in (pipe.dialler, pipe.acceptor)]
        self.engines[rid] = (
            StartingEngine(rid, self.members, life)
            if starts
            else FakeEngine(rid, self.members, life=life, tail_bytes=self.tail_bytes)
        )
        self.start(rid)

    # -- steps

    def step(self, ms: int = 5) -> None:
        self.now_ms += ms
        order = list(self.hubs)
        self.random.shuffle(order)
        for rid in order:
            self.hubs[rid].tick(self.now_ms)
            self.work(rid)
        pipes = list(self.pipes)
        self.random.shuffle(pipes)
        for pipe in pipes:
            self.carry(pipe)
        for rid in order:
            self.work(rid)

    def run(self, ms: int = 1000, step_ms: int = 5) -> None:
        for _ in range(ms // step_ms):
            self.step(step_ms)

    def until(self, condition: Any, ms_max: int = 60_000) -> None:
        for _ in range(ms_max // 5):
            if condition():
                return
            self.step()
        raise AssertionError(f"not reached: {self.describe()}")

    def settle(self, ms_max: int = 60_000) -> None:
        self.until(self.converged, ms_max)

    def converged(self) -> bool:
        whole: dict[int, int] = {}
        for engine in self.engines.values():
            raise_to(whole, engine.vector)
        for rid, engine in self.engines.items():
            if engine.vector != whole or engine.pending:
                return False
            if any(
                acks != whole for peer, acks in engine.peer_acks.items() if peer in engine.receivers
            ):
                return False
            assert engine.held == self.engines[next(iter(self.engines))].held, rid
        return True

    def describe(self) -> str:
        return "; ".join(
            f"{engine.name} {engine.vector} {engine.states}" for engine in self.engines.values()
        )

    def sender(self, acceptor: int, dialler: int) -> Any:
        return self.hubs[acceptor].sending[dialler].sender

    def receiver(self, dialler: int, acceptor: int) -> Any:
        connection = self.hubs[dialler].links[acceptor].connection
        assert connection is not None
        return connection.receiver

    def work(self, rid: int) -> None:
        """A region's step, and what it asks for."""
        work = self.drivers[rid].step()
        for peer in work.dials:
            self._dial(rid, peer)
        for number in work.closes:
            self._close(rid, number)
        self.notes += [
            f"{self.engines[rid].name}: {event.text}"
            for event in work.events
            if event.name in {"link_refused", "snapshot_joined"}
        ]

    def _dial(self, rid: int, peer: int) -> None:
        if (rid, peer) in self.cut_links or peer not in self.hubs:
            self.hubs[rid].dial_failed(peer, "unreachable", self.now_ms)
            return
        number = self.hubs[rid].dial_opened(peer, self.now_ms)
        if number is not None:
            self.pipes.append(Pipe(rid, peer, number, self.hubs[peer].accepted(self.now_ms)))

    def _close(self, rid: int, number: int) -> None:
        for pipe in list(self.pipes):
            if pipe.numbers.get(rid) == number:
                self.pipes.remove(pipe)
                other = pipe.dialler if pipe.acceptor == rid else pipe.acceptor
                self.hubs[other].closed(pipe.numbers[other], "closed by the peer", self.now_ms)

    def carry(self, pipe: Pipe) -> None:
        for source, target in ((pipe.dialler, pipe.acceptor), (pipe.acceptor, pipe.dialler)):
            hub = self.hubs[source]
            # The transport has room for a few messages; a region that reads nothing fills it.
            while len(pipe.flight[target]) < 4 and pipe in self.pipes:
                message = hub.next_message(pipe.numbers[source])
                if message is None:
                    if hub.finished(pipe.numbers[source]):
                        pipe.ended.add(source)
                    break
                self.said.append((source, target, message))
                sent: Any = message
                pipe.flight[target].append(
                    encode_up(sent) if source == pipe.dialler else encode_down(sent)
                )
        for target in (pipe.acceptor, pipe.dialler):
            if target in self.paused:
                continue
            for _ in range(self.random.randint(1, 4)):
                if pipe.flight[target] and pipe in self.pipes:
                    data = pipe.flight[target].popleft()
                    message = decode_down(data) if target == pipe.dialler else decode_up(data)
                    self.hubs[target].received(pipe.numbers[target], message, self.now_ms)
        for source in list(pipe.ended):
            target = pipe.dialler if source == pipe.acceptor else pipe.acceptor
            if not pipe.flight[target] and pipe in self.pipes:
                self.pipes.remove(pipe)
                for rid in (source, target):
                    self.hubs[rid].closed(pipe.numbers[rid], "closed by the peer", self.now_ms)


def mesh(*rids: int) -> list[tuple[int, int]]:
    return [(one, other) for one in rids for other in rids if one != other]


def line(*rids: int) -> list[tuple[int, int]]:
    return [
        pair for one, other in itertools.pairwise(rids) for pair in ((one, other), (other, one))
    ]


def ring(*rids: int) -> list[tuple[int, int]]:
    """One way only: each receives from the one before it."""
    return [(rid, rids[place - 1]) for place, rid in enumerate(rids)]
