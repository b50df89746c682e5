"""The simulated clients send well-formed commands of every form; the draws alone decide them."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final, Optional

import pytest

from anabranch.region.engine.replies import ErrorReply, Reply, ReplyLater, SimpleString, listed
from anabranch.sim.history import Operation, Words
from anabranch.sim.load.base import KNOWN_IDS_MAX, TOKENS_OF_A_CLIENT
from anabranch.sim.load.client import KINDS, Client, make
from anabranch.sim.load.consumers import HELD_MAX, GroupConsumer
from anabranch.sim.load.producers import IdempotentProducer, TwinProducer
from anabranch.sim.load.readers import OTHER_TYPES, StreamReader
from anabranch.sim.load.synchronous import SynchronousWriter
from anabranch.sim.load.transactions import WRONG, Transactor
from anabranch.sim.plan import ClientPlan
from anabranch.sim.replies import entries_by_key, entry_ids, field_of
from tests.support.engines import answer_questions, execute, single

KEYS: Final = (b"a", b"b", b"c")
REGIONS: Final = (1, 2, 3)
START_MS: Final = 1_700_000_000_000
STEP_MS: Final = 40


def plan_of(
    kind: str, number: int = 1, draw: int = 0, keys: tuple[bytes, ...] = KEYS
) -> ClientPlan:
    return ClientPlan(number, kind, 1, keys, draw)


def client_of(
    kind: str, number: int = 1, draw: int = 0, keys: tuple[bytes, ...] = KEYS, mode: str = "strict"
) -> Client:
    return make(plan_of(kind, number, draw, keys), REGIONS, lambda region: mode)


class Stage:
    """One engine that stands for all regions, and clients that take turns on it.

    `faults`: the share of the turns in which a client crashes, is refused, or loses its replies.
    """

    def __init__(self, seed: int, faults: float = 0.0) -> None:
        self.engine = single(1, START_MS)
        self.now_ms = START_MS
        self.draws = Random(seed)
        self.faults = faults
        self.sessions: dict[tuple[int, int], object] = {}
        # Each command with its reply; a command of a transaction has its reply from EXEC's list.
        self.sent: list[tuple[Words, Reply]] = []
        self.number = 0

    def mode(self, region: int) -> str:
        return self.engine.settings.text("crdt-xadd-id-uniqueness-mode")

    def turn(self, client: Client) -> None:
        """A fault strikes the client, or the client acts and receives its replies."""
        self.now_ms += int(self.draws.random() * STEP_MS)
        self.commit()
        chance = self.draws.random()
        if chance < self.faults / 4:
            self.hang_up(client)
            client.crash()
        elif chance < self.faults / 2:
            self.hang_up(client)
            client.refused(self.now_ms)
        else:
            commands = client.act(Random(self.draws.getrandbits(64)), self.now_ms)
            self.send(client, commands, chance < self.faults)

    def hang_up(self, client: Client) -> None:
        for place in [place for place in self.sessions if place[0] == client.number]:
            self.engine.clients.disconnect(self.sessions.pop(place))  # type: ignore[arg-type]

    def commit(self) -> None:
        self.engine.tick(self.now_ms)
        if self.engine.disk.wants_commit(self.now_ms):
            commit = self.engine.disk.take_commit(self.now_ms)
            if commit is not None:
                self.engine.disk.committed(self.now_ms)
        # As a region with an empty log.
        answer_questions(self.engine, [])

    def send(self, client: Client, commands: list[Words], is_lost: bool) -> None:
        queued: Optional[list[Words]] = None
        region = client.region
        for argv in commands:
            reply = self.execute(client, argv)
            if argv == (b"MULTI",):
                queued = []
                continue
            if queued is not None and argv not in ((b"EXEC",), (b"DISCARD",)):
                queued.append(argv)
                if isinstance(reply, ErrorReply):
                    self.sent.append((argv, reply))
                continue
            operation = self.operation(client, region, argv, tuple(queued or ()))
            queued = None
            if (reply is None and self.gave_up) or is_lost:
                self.hang_up(client)
                client.lost(operation)
                return
            self.note(operation, reply)
            operation.reply = reply
            client.answered(operation)

    def operation(
        self, client: Client, region: int, argv: Words, queued: tuple[Words, ...]
    ) -> Operation:
        self.number += 1
        return Operation(
            self.number, client.number, region, 1, argv, queued, self.now_ms, self.now_ms, {}, False
        )

    def note(self, operation: Operation, reply: Reply) -> None:
        if operation.argv == (b"EXEC",):
            replies = (
                reply
                if isinstance(reply, list)
                else [SimpleString(b"nothing ran")] * len(operation.queued)
            )
            self.sent.extend(zip(operation.queued, replies, strict=True))
        self.sent.append((operation.argv, reply))

    def execute(self, client: Client, argv: Words) -> Reply:
        """The reply. After the client's patience: None, and `gave_up` is set."""
        self.gave_up = False
        place = (client.number, client.region)
        if place not in self.sessions:
            self.hang_up(client)
            self.sessions[place] = self.engine.clients.connect("client", "here", self.now_ms)
        session = self.sessions[place]
        reply = execute(self.engine, session, list(argv), self.now_ms)  # type: ignore[arg-type]
        until_ms = self.now_ms + client.patience_ms
        while isinstance(reply, ReplyLater):
            self.commit()
            replies = [one for one in self.engine.clients.take_replies() if one.session is session]
            if replies:
                return listed(replies[0].reply)
            if self.now_ms >= until_ms:
                self.gave_up = True
                return None
            self.now_ms += 20
        return listed(reply)


class Recorded:
    """The commands of some clients of one kind, in `acts` acts each.

    A producer and a consumer act besides them, so that streams and groups change.
    """

    def __init__(self, kind: str, clients: int = 16, acts: int = 120, faults: float = 0.03) -> None:
        self.sent: list[tuple[Words, Reply]] = []
        self.by_client: list[list[Words]] = []
        for draw in range(clients):
            stage = Stage(draw, faults)
            client = make(plan_of(kind, 1, draw), REGIONS, stage.mode)
            others = [
                make(plan_of(other, 2 + at, draw), REGIONS, stage.mode)
                for at, other in enumerate(("producer", "consumer"))
            ]
            mode = ("strict", "semi-strict", "liberal")[draw % 3]
            stage.engine.settings.set("crdt-xadd-id-uniqueness-mode", mode)
            stage.engine.state.refresh_settings()
            of_client: list[tuple[Words, Reply]] = []
            for act in range(acts):
                stage.sent = of_client
                stage.turn(client)
                stage.sent = []
                stage.turn(others[act % 2])
            self.sent += of_client
            self.by_client.append([argv for argv, _ in of_client])

    def hash(self) -> str:
        return hashlib.sha256(repr(self.by_client).encode()).hexdigest()


_RECORDED: dict[str, Recorded] = {}


def recorded(kind: str) -> Recorded:
    if kind not in _RECORDED:
        _RECORDED[kind] = Recorded(kind)
    return _RECORDED[kind]


def all_hashes() -> str:
    return " ".join(Recorded(kind, 2, 60).hash() for kind in sorted(KINDS))


# Errors in reply to a well-formed command: the state is not what the client expects.
CONTRADICTIONS: Final = (
    "BUSYGROUP ",
    "NOGROUP ",
    "EXECABORT ",
    "ERR no such key",
    "ERR The XGROUP subcommand requires the key to exist",
    "ERR The ID specified in XADD ",
    "ERR The ID specified in XSETID is smaller than the target stream top item",
    "ERR The entries_added specified in XSETID is smaller than the target stream length",
    "ERR full stream IDs (ms-seq) are not allowed in strict mode",
    "ERR The stream has exhausted the last possible ID",
    "ERR no region ",
)


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_client_sends_is_well_formed(kind: str) -> None:
    wrong = [
        (argv, reply.message)
        for argv, reply in recorded(kind).sent
        if isinstance(reply, ErrorReply)
        and not reply.message.startswith(CONTRADICTIONS)
        and argv not in WRONG
        and not (argv[:2] == (b"CONFIG", b"SET") and len(argv) > 4)
        and not (argv[0] in OTHER_TYPES and reply.message.startswith("ERR unknown command"))
    ]
    assert wrong == []
    assert sum(len(commands) for commands in recorded(kind).by_client) > 400


# By kind of client: groups of words, each of which must occur in one command.
FORMS: Final[dict[str, list[str]]] = {
    "producer": [
        "XADD *",
        "XADD NOMKSTREAM",
        "XADD MAXLEN",
        "XADD MAXLEN =",
        "XADD MAXLEN ~",
        "XADD MAXLEN ~ LIMIT",
        "XADD MINID",
        "XADD MINID ~",
        "XADD KEEPREF",
        "XADD DELREF",
        "XADD ACKED",
    ],
    "idempotent-producer": [
        "XADD IDMP",
        "XADD IDMPAUTO",
        "XADD IDMP NOMKSTREAM",
        "XADD IDMP MAXLEN",
    ],
    "twin-producer": ["XADD IDMP", "XADD IDMPAUTO"],
    "consumer": [
        "XGROUP CREATE MKSTREAM 0",
        "XGROUP CREATE $",
        "XREADGROUP > COUNT",
        "XREADGROUP > BLOCK",
        "XREADGROUP > NOACK",
        "XREADGROUP 0",
        "XREADGROUP 0 COUNT",
        "XACK",
        "XAUTOCLAIM",
        "XAUTOCLAIM COUNT",
        "XAUTOCLAIM JUSTID",
        "XCLAIM",
        "XCLAIM FORCE",
        "XCLAIM JUSTID",
        "XCLAIM IDLE",
        "XCLAIM TIME",
        "XCLAIM RETRYCOUNT",
        "XCLAIM LASTID",
        "XPENDING",
        "XPENDING IDLE",
    ],
    "reader": ["XREAD 0", "XREAD $", "XREAD +", "XREAD COUNT", "XREAD BLOCK", "XREAD a b c"],
    "looker": [
        "XRANGE",
        "XRANGE COUNT",
        "XRANGE - +",
        "XREVRANGE",
        "XREVRANGE COUNT",
        "XLEN",
        "XINFO STREAM",
        "XINFO STREAM FULL",
        "XINFO STREAM FULL COUNT",
        "XINFO GROUPS",
        "XINFO CONSUMERS",
        "XPENDING",
        "XPENDING - +",
        "XPENDING IDLE",
        "XPENDING c0",
        "EXISTS",
        "TOUCH",
        "TYPE",
        "TTL",
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME",
        "KEYS",
        "SCAN",
        "DBSIZE",
        "RANDOMKEY",
        "XIDMP CFGGET",
        "CRDT.VECTOR",
        "CRDT.DIGEST",
        "CRDT.DIGEST a",
        "CRDT.EXPLAIN",
        "CRDT.HISTORY",
        "CRDT.GROUPS",
        "CRDT.EFFECTS",
        "CRDT.NODES",
        "CRDT.HISTORY",
        "CRDT.LOG",
        "CRDT.PEERS",
        "INFO crdt",
    ],
    "trimmer": [
        "XTRIM MAXLEN",
        "XTRIM MAXLEN =",
        "XTRIM MAXLEN ~",
        "XTRIM MAXLEN ~ LIMIT",
        "XTRIM MINID",
        "XTRIM MINID ~",
        "XTRIM KEEPREF",
        "XTRIM DELREF",
        "XTRIM ACKED",
        "XDEL",
        "XRANGE",
        "XREVRANGE",
        "XLEN",
    ],
    "deleter": [
        "DEL a",
        "DEL a b",
        "UNLINK",
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "FLUSHALL SYNC",
        "FLUSHDB",
    ],
    "renamer": ["RENAME", "RENAMENX"],
    "last-id-keeper": ["XSETID", "XSETID ENTRIESADDED", "XSETID ENTRIESADDED MAXDELETEDID"],
    "expirer": [
        "EXPIRE",
        "PEXPIRE",
        "EXPIREAT",
        "PEXPIREAT",
        "PEXPIRE NX",
        "PEXPIRE XX",
        "PEXPIRE GT",
        "PEXPIRE LT",
        "PEXPIRE XX GT",
        "PEXPIRE LT XX",
        "PERSIST",
        "PTTL",
    ],
    "group-administrator": [
        "XGROUP CREATE 0",
        "XGROUP CREATE $",
        "XGROUP CREATE MKSTREAM",
        "XGROUP CREATE ENTRIESREAD",
        "XGROUP DESTROY",
        "XGROUP SETID 0",
        "XGROUP SETID $",
        "XGROUP SETID ENTRIESREAD",
        "XGROUP CREATECONSUMER",
        "XGROUP DELCONSUMER",
    ],
    "pair-configurer": [
        "XCFGSET IDMP-DURATION",
        "XCFGSET IDMP-MAXSIZE",
        "XCFGSET IDMP-DURATION IDMP-MAXSIZE",
        "XIDMP CFGSET DURATION MAXSIZE",
    ],
    "configurer": [
        "CONFIG SET crdt-xadd-id-uniqueness-mode",
        "CONFIG SET appendfsync",
        "CONFIG SET crdt-xadd-id-uniqueness-mode appendfsync stream-node-max-entries",
        "CONFIG SET crdt-xadd-id-uniqueness-mode crdt-no-such-setting",
        "CONFIG GET",
    ],
    "administrator": [
        "DEL",
        "RENAME",
        "XSETID",
        "EXPIREAT",
        "PERSIST",
        "XGROUP CREATE",
        "XGROUP SETID",
        "XCFGSET",
        "CONFIG SET",
    ],
    "transactor": [
        "WATCH",
        "WATCH a",
        "UNWATCH",
        "EXEC",
        "DISCARD",
        "XADD",
        "XADD IDMP",
        "XADD IDMPAUTO",
        "XADD MAXLEN",
        "XTRIM",
        "XDEL",
        "XACK",
        "XREADGROUP >",
        "XREADGROUP NOACK",
        "XAUTOCLAIM",
        "DEL",
        "XGROUP CREATE",
        "XGROUP DESTROY",
        "XGROUP SETID",
        "RENAME",
        "PEXPIRE",
        "PERSIST",
        "XSETID",
        "XCFGSET",
        "XLEN",
        "NOSUCHCOMMAND",
    ],
    "synchronous-writer": [
        "XADD",
        "WAIT",
        "WAIT 0",
        "WAIT 3",
        "CRDT.SYNC",
        "CRDT.VECTOR",
        "CRDT.WAIT",
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_reaches_each_of_its_forms(kind: str) -> None:
    said = {frozenset(argv) for argv, _ in recorded(kind).sent}
    names = {argv[0] for argv, _ in recorded(kind).sent}
    missing = []
    for form in FORMS[kind]:
        words = form.encode().split()
        if words[0] not in names or not any(argv.issuperset(words) for argv in said):
            missing.append(form)
    assert missing == []


def test_every_kind_has_its_forms() -> None:
    assert list(FORMS) == list(KINDS)


def test_a_producer_makes_each_form_of_id() -> None:
    ids = {argv[2] for argv, _ in recorded("producer").sent if argv[0] == b"XADD"}
    assert any(one.isdigit() for one in ids)
    assert any(one.endswith(b"-*") for one in ids)
    assert any(one.replace(b"-", b"").isdigit() and b"-" in one for one in ids)


def test_what_is_refused_is_tried_too() -> None:
    errors = [
        reply.message for _, reply in recorded("producer").sent if isinstance(reply, ErrorReply)
    ]
    assert any("strict mode" in message for message in errors)
    assert any("equal or smaller" in message for message in errors)


def test_most_of_what_is_said_succeeds() -> None:
    for kind in KINDS:
        replies = [reply for _, reply in recorded(kind).sent]
        failed = sum(1 for reply in replies if isinstance(reply, ErrorReply))
        assert failed < len(replies) * 0.4, kind


@pytest.mark.parametrize("kind", ["transactor", "consumer"])
def test_groups_are_read_and_acknowledged(kind: str) -> None:
    acknowledged = [
        reply
        for argv, reply in recorded(kind).sent
        if argv[0] == b"XACK" and isinstance(reply, int) and reply > 0
    ]
    delivered = [
        reply
        for argv, reply in recorded(kind).sent
        if argv[0] == b"XREADGROUP" and isinstance(reply, list) and reply
    ]
    assert delivered
    assert acknowledged or kind == "transactor"


@pytest.mark.parametrize("name", [b"XDEL", b"XTRIM"])
def test_what_is_removed_was_there(name: bytes) -> None:
    sent = recorded("trimmer").sent
    assert (
        sum(1 for argv, reply in sent if argv[0] == name and isinstance(reply, int) and reply > 0)
        > 20
    )


def test_claims_find_something() -> None:
    sent = recorded("consumer").sent
    assert (
        sum(1 for argv, reply in sent if argv[0] == b"XCLAIM" and isinstance(reply, list) and reply)
        > 5
    )
    assert any(
        argv[0] == b"XAUTOCLAIM" and isinstance(reply, list) and reply[1] for argv, reply in sent
    )


# -- determinism


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_draws_give_the_same_commands(kind: str) -> None:
    assert Recorded(kind, 2, 60).hash() == Recorded(kind, 2, 60).hash()


def test_nothing_follows_from_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    script = "from tests.sim.test_load import all_hashes; print(all_hashes())"
    hashes = []
    for hash_seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join([*filter(None, sys.path), str(root)]),
        }
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        hashes.append(done.stdout)
    assert hashes[0] == hashes[1] and hashes[0].strip()


def test_other_draws_give_other_clients() -> None:
    assert len({repr(Recorded(kind, 1, 40).by_client) for kind in KINDS}) == len(KINDS)
    mixes = {tuple(client_of("consumer", draw=draw)._upto) for draw in range(20)}
    assert len(mixes) > 10


# -- tokens


def adds_of(commands: list[Words]) -> list[Words]:
    return [argv for argv in commands if argv[0] == b"XADD" and len(argv) > 1]


def token_of(argv: Words) -> bytes:
    """The value of field `t`, the first field after the ID. No earlier word is `t`."""
    return argv[argv.index(b"t") + 1]


@pytest.mark.parametrize(
    "kind", ["producer", "idempotent-producer", "twin-producer", "transactor", "synchronous-writer"]
)
def test_a_token_belongs_to_one_add(kind: str) -> None:
    repeated = 0
    for commands in recorded(kind).by_client:
        adds: dict[bytes, Words] = {}
        for argv in adds_of(commands):
            token = token_of(argv)
            assert TOKENS_OF_A_CLIENT < int(token) < 2 * TOKENS_OF_A_CLIENT
            repeated += token in adds
            assert adds.setdefault(token, argv) == argv
    assert (repeated > 0) == kind.endswith(("idempotent-producer", "twin-producer"))


def test_tokens_go_on_after_a_crash() -> None:
    client = client_of("producer", number=7)
    assert client.token() == b"7000001"
    client.crash()
    assert client.token() == b"7000002"


# -- regions


def fleeing(kind: str, flight: float) -> Client:
    client = client_of(kind)
    client.flight = flight
    client.restlessness = 0.0
    return client


def an_operation(
    client: Client, argv: Words, reply: Reply = None, queued: tuple[Words, ...] = ()
) -> Operation:
    operation = Operation(1, client.number, client.region, 1, argv, queued, 0, 0, {}, False)
    operation.reply = reply
    return operation


@pytest.mark.parametrize("trouble", ["refused", "lost", "readonly"])
def test_a_client_fails_over(trouble: str) -> None:
    client = fleeing("producer", 1.0)
    if trouble == "refused":
        client.refused(START_MS)
    elif trouble == "lost":
        client.lost(an_operation(client, (b"XLEN", b"a")))
    else:
        client.answered(
            an_operation(
                client,
                (b"XLEN", b"a"),
                ErrorReply("READONLY region us is in recovery, waiting for eu"),
            )
        )
    assert client.region == 1
    client.act(Random(1), START_MS)
    assert client.region in (2, 3)


def test_some_clients_stay_whatever_happens() -> None:
    client = fleeing("producer", 0.0)
    client.refused(START_MS)
    client.act(Random(1), START_MS)
    assert client.region == 1


def test_a_client_comes_home() -> None:
    client = fleeing("looker", 1.0)
    client.go(3)
    for seed in range(100):
        client.act(Random(seed), START_MS)
    assert client.region == 1


def test_what_was_lost_in_a_region_that_it_left_troubles_nobody() -> None:
    client = fleeing("producer", 1.0)
    operation = an_operation(client, (b"XLEN", b"a"))
    client.go(2)
    client.lost(operation)
    client.act(Random(1), START_MS)
    assert client.region == 2


def test_a_lone_region_is_never_left() -> None:
    client = make(plan_of("producer"), (1,), lambda region: "strict")
    client.refused(START_MS)
    client.act(Random(1), START_MS)
    assert client.region == 1


# -- idempotent producers


def producer_of(
    kind: str = "idempotent-producer", draw: int = 0, number: int = 1
) -> IdempotentProducer:
    client = client_of(kind, number, draw, (b"a",))
    assert isinstance(client, IdempotentProducer)
    client.restlessness = client.automatic = 0.0
    return client


def test_an_unanswered_item_is_sent_again_word_by_word_in_another_region_too() -> None:
    client = producer_of()
    client.wanders = 1.0
    (first,) = client.act(Random(1), START_MS)
    client.lost(an_operation(client, first))
    regions = set()
    again = 0
    for seed in range(30):
        (words,) = client.act(Random(seed), START_MS)
        if token_of(words) == token_of(first):
            assert words == first
            regions.add(client.region)
            again += 1
    assert again > 1
    assert len(regions) > 1


def test_an_item_that_is_never_answered_is_given_up() -> None:
    client = producer_of()
    for seed in range(400):
        for words in client.act(Random(seed), START_MS):
            client.lost(an_operation(client, words))
        assert len(client.unacknowledged) == len(client.tries) <= client.UNACKNOWLEDGED_MAX
    assert client.position > 20


def test_an_answered_item_is_done_and_a_refused_one_dropped() -> None:
    client = producer_of()
    (first,) = client.act(Random(1), START_MS)
    client.answered(
        an_operation(client, first, ErrorReply("READONLY region us is in recovery, waiting for eu"))
    )
    assert client.unacknowledged == [first]
    client.answered(an_operation(client, first, b"5-1"))
    assert client.unacknowledged == [] and client.done == [first]
    client.done = []
    (second,) = client.act(Random(1), START_MS)
    assert token_of(second) != token_of(first)
    client.answered(an_operation(client, second, ErrorReply("ERR no")))
    assert client.unacknowledged == [] and client.done == []


@pytest.mark.parametrize("parity", [0, 1])
def test_producers_of_a_parity_send_the_same_pairs_with_tokens_of_their_own(parity: int) -> None:
    pairs: list[dict[tuple[bytes, ...], bytes]] = []
    for number in (1, 2):
        client = producer_of(draw=2 * number + parity, number=number)
        seen: dict[tuple[bytes, ...], bytes] = {}
        for step in range(60):
            for words in client.act(Random(number * 1000 + step), START_MS + step * 100):
                at = words.index(b"IDMP")
                seen.setdefault(words[at : at + 3], token_of(words))
                client.answered(an_operation(client, words, b"5-1"))
        pairs.append(seen)
    both = [pair for pair in pairs[0] if pair in pairs[1]]
    assert len(both) > 5
    assert all(pairs[0][pair] != pairs[1][pair] for pair in both)


def test_a_crash_forgets_items_and_takes_the_sequence_back_a_little() -> None:
    client = producer_of()
    client.position = 11
    client.act(Random(1), START_MS)
    client.crash()
    assert (client.unacknowledged, client.done, client.position) == (
        [],
        [],
        12 - 12 % client.SOURCE_REMEMBERS,
    )


def test_a_twin_says_the_same_elsewhere_at_once() -> None:
    client = producer_of("twin-producer")
    assert isinstance(client, TwinProducer)
    twice = 0
    for seed in range(40):
        region = client.region
        (words,) = client.act(Random(seed), START_MS + seed)
        if client.owed:
            region = client.region
            (again,) = client.act(Random(seed), START_MS + seed)
            assert again == words and client.region != region
            twice += 1
    assert twice > 10


# -- consumers


def consumer_of(draw: int = 0) -> GroupConsumer:
    client = client_of("consumer", draw=draw, keys=(b"a",))
    assert isinstance(client, GroupConsumer)
    client.missing = []
    client.begins_with_create = False
    return client


def delivered(*ids: bytes) -> Reply:
    entries: list[Reply] = [[one, [b"t", b"1"]] for one in ids]
    return [[b"a", entries]]


def test_a_consumer_creates_its_group_when_told_that_there_is_none() -> None:
    client = consumer_of()
    (read,) = client.read(Random(1), START_MS)
    client.answered(
        an_operation(client, read, ErrorReply("NOGROUP No such key 'a' or consumer group"))
    )
    (create,) = client.act(Random(1), START_MS)
    assert create[:4] == (b"XGROUP", b"CREATE", b"a", client.group)
    assert client.missing == []


def test_a_read_of_two_keys_without_group_creates_both() -> None:
    client = consumer_of()
    read = (
        b"XREADGROUP",
        b"GROUP",
        b"g0",
        b"c1",
        b"COUNT",
        b"1",
        b"STREAMS",
        b"a",
        b"b",
        b">",
        b">",
    )
    client.answered(
        an_operation(client, read, ErrorReply("NOGROUP No such key 'a' or consumer group"))
    )
    assert client.missing == [b"a", b"b"]


def test_a_consumer_lets_go_of_what_is_acknowledged_once_it_is_answered() -> None:
    client = consumer_of()
    read = (b"XREADGROUP", b"GROUP", b"g0", b"c1", b"STREAMS", b"a", b">")
    client.answered(an_operation(client, read, delivered(b"1-1", b"2-1", b"3-1")))
    ack = (b"XACK", b"a", client.group, b"2-1")
    client.lost(an_operation(client, ack))
    assert [one for _, one in client.held] == [b"1-1", b"2-1", b"3-1"]
    client.answered(an_operation(client, ack, 0))
    assert [one for _, one in client.held] == [b"1-1", b"3-1"]
    assert client.acknowledged == [(b"a", b"2-1")]


def test_a_consumer_acknowledges_only_what_it_was_given_or_heard_of() -> None:
    client = consumer_of()
    client.hold(b"a", [b"%d-1" % number for number in range(1, 9)])
    for seed in range(300):
        for words in client.acknowledge(Random(seed), START_MS):
            if words[0] == b"XACK":
                assert all(one.endswith(b"-1") for one in words[3:])


def test_a_consumer_that_crashed_asks_for_what_it_had() -> None:
    client = consumer_of()
    client.hold(b"a", [b"1-1"])
    client.crash()
    assert client.held == []
    (words,) = client.act(Random(1), START_MS)
    assert words[0] == b"XREADGROUP" and words[-2:] == (b"a", b"0")
    (words,) = client.read(Random(1), START_MS)
    assert words[-1] == b">"


def test_a_consumer_claims_what_others_hold() -> None:
    client = consumer_of()
    pending: Reply = [
        [b"1-1", b"other", 5, 1],
        [b"2-1", client.consumer, 5, 1],
        [b"3-1", b"other", 5, 1],
    ]
    client.answered(
        an_operation(client, (b"XPENDING", b"a", client.group, b"-", b"+", b"9"), pending)
    )
    assert client.seen == [b"1-1", b"3-1"]
    (words,) = client.claim(Random(3), START_MS)
    assert words[0] == b"XCLAIM" and words[5] in client.seen
    client.answered(an_operation(client, words, [[b"3-1", [b"t", b"1"]]]))
    assert client.held == [(b"a", b"3-1")]


def test_xautoclaim_goes_on_where_it_ended() -> None:
    client = consumer_of()
    words = client.claim_any(Random(1), START_MS)[0]
    client.answered(an_operation(client, words, [b"7-1", [b"3-1", b"4-1"], []]))
    assert client.held == [(b"a", b"3-1"), (b"a", b"4-1")]
    assert client.cursor == b"7-1"


def test_memories_are_small() -> None:
    client = consumer_of()
    ids = [b"%d-1" % number for number in range(500)]
    client.hold(b"a", ids)
    client.know(b"a", ids)
    assert len(client.held) == HELD_MAX
    assert len(client.known[b"a"]) == KNOWN_IDS_MAX


# -- readers, synchronous writers, transactors


def test_a_reader_of_the_newest_entries_waits_for_all_streams_at_times() -> None:
    """Each stream has a `$` of its own (S7.2)."""
    found = set()
    for seed in range(20):
        client = client_of("reader")
        assert isinstance(client, StreamReader)
        client.begins, client.reads_all = b"$", 0.0
        client.last_ids = {b"a": b"5-1"}
        (words,) = client.read(Random(seed), START_MS)
        found.add(words[words.index(b"STREAMS") + 1 :])
    assert (*client.keys, *(b"$" for _ in client.keys)) in found
    assert (b"a", b"5-1") in found and len(client.keys) > 1


def test_a_reader_goes_on_above_the_last_id_and_begins_anew_after_a_crash() -> None:
    client = client_of("reader", keys=(b"a",))
    assert isinstance(client, StreamReader)
    (words,) = client.read(Random(1), START_MS)
    assert words[-1] == client.begins
    client.answered(an_operation(client, words, delivered(b"1-1", b"2-1")))
    (words,) = client.read(Random(1), START_MS)
    assert words[-2:] == (b"a", b"2-1")
    client.crash()
    (words,) = client.read(Random(1), START_MS)
    assert words[-1] == client.begins


def test_a_vector_is_waited_for_in_another_region() -> None:
    client = client_of("synchronous-writer")
    assert isinstance(client, SynchronousWriter)
    client.wanders = 1.0
    client.answered(an_operation(client, (b"CRDT.VECTOR",), [1, 8, 2, 5]))
    words = client.act(Random(1), START_MS)
    assert client.region != 1
    assert words[0][0] == b"CRDT.WAIT" and words[0][2:] == (b"1", b"8", b"2", b"5")
    assert client.vector == ()


def watching_transactor() -> Transactor:
    client = client_of("transactor")
    assert isinstance(client, Transactor)
    client.watches = 1.0
    client.restlessness = 0.0
    client.blunders = client.discards = 0.0
    words: list[Words] = []
    seed = 0
    while not client.watching:
        words = client.act(Random(seed), START_MS)
        seed += 1
    assert words[0][0] == b"WATCH"
    return client


def test_a_transaction_under_watch_comes_in_the_next_step() -> None:
    client = watching_transactor()
    words = client.act(Random(5), START_MS)
    assert words[0] == (b"MULTI",) and words[-1] == (b"EXEC",)


def test_keys_are_watched_once_more_at_times() -> None:
    """A change before the second WATCH must still end the transaction (S10.7)."""
    for seed in range(40):
        client = watching_transactor()
        keys = client.watching
        words = client.act(Random(seed), START_MS)
        if words[0][0] == b"WATCH":
            assert words == [(b"WATCH", *keys)] and client.watching == keys
            return
    pytest.fail("no key was watched once more")


@pytest.mark.parametrize("event", ["lost", "refused", "crash", "go"])
def test_watching_ends_with_the_connection(event: str) -> None:
    client = watching_transactor()
    if event == "lost":
        client.lost(an_operation(client, (b"XLEN", b"a")))
    elif event == "refused":
        client.refused(START_MS)
    elif event == "crash":
        client.crash()
    else:
        client.go(2)
    assert not client.watching


def test_a_transactor_learns_ids_from_exec() -> None:
    client = client_of("transactor")
    queued: tuple[Words, ...] = ((b"XADD", b"a", b"*", b"t", b"1"), (b"XLEN", b"a"))
    client.answered(an_operation(client, (b"EXEC",), [b"9-1", 3], queued))
    assert list(client.known[b"a"]) == [b"9-1"]


# -- replies


def test_what_is_no_list_of_entries_shows_no_ids() -> None:
    assert entry_ids(None, 5) == entry_ids(3, 5) == []
    assert entry_ids([[b"1-1", []], b"2-1", [], 5], 9) == [b"1-1", b"2-1"]
    assert entries_by_key(None) == []
    assert field_of(None, b"x") is None
    assert field_of([b"y", 1], b"x") is None
