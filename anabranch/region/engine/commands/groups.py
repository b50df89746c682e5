"""XGROUP: manages consumer groups.

Creating or destroying a group issues an effect (S6). Floors and consumers are local group state,
which is not replicated (S6.5, S7.4).
"""

from __future__ import annotations

from typing import Final

from anabranch.crdt.effects import CreateGroup, DestroyGroup
from anabranch.crdt.groups import Group
from anabranch.crdt.local import ConsumerDeleted, ConsumerMade, FloorSet, RecordHead
from anabranch.crdt.pel_chunk import EntryRef, entry_ref
from anabranch.crdt.place import Place, at_counters, at_id
from anabranch.crdt.stream import Stream
from anabranch.region.engine.commands.arguments import (
    container,
    entry_id,
    help_reply,
    id_or_bound,
    integer,
    no_group_of_key,
    option_error,
)
from anabranch.region.engine.replies import OK, CommandError, Reply
from anabranch.region.engine.session import Session
from anabranch.region.engine.state import EngineState
from anabranch.region.engine.table import Command

NEEDS_KEY: Final = (
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use "
    "the MKSTREAM option to create an empty stream automatically."
)


def head_of(state: EngineState, stream: Stream, group: Group) -> RecordHead:
    """The head of a new local record of the group; it names the creates now live (S13.1)."""
    return RecordHead(stream.key, group.name, group.create_dots(), state.clock.now_ms)


def _stream(state: EngineState, key: bytes) -> Stream:
    stream = state.existing(key)
    if stream is None:
        raise CommandError(NEEDS_KEY)
    return stream


def _group(stream: Stream, name: bytes) -> Group:
    group = stream.find_group(name)
    if group is None:
        raise no_group_of_key(stream.key, name)
    return group


def _options(argv: list[bytes], index: int, allows_mkstream: bool) -> tuple[bool, int]:
    """Parses options from `index` on; returns whether MKSTREAM is given, and ENTRIESREAD or -1."""
    mkstream = False
    entries_read = -1
    while index < len(argv):
        option = argv[index].upper()
        if option == b"MKSTREAM" and allows_mkstream:
            mkstream = True
            index += 1
        elif option == b"ENTRIESREAD" and index + 1 < len(argv):
            entries_read = integer(argv[index + 1])
            if entries_read < -1:
                raise CommandError("ERR value for ENTRIESREAD must be positive or -1")
            index += 2
        else:
            raise option_error(argv)
    if len(argv) > (8 if allows_mkstream else 7):  # An option was given twice.
        raise option_error(argv)
    return mkstream, entries_read


def create(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XGROUP CREATE key group id|$ [MKSTREAM] [ENTRIESREAD n].

    Issues one create, which carries this region's vector (S6).
    """
    mkstream, entries_read = _options(argv, 5, True)
    stream = state.existing(argv[2])
    if stream is None and not mkstream:
        raise CommandError(NEEDS_KEY)
    at_vector = argv[4] == b"$"
    start_id = 0 if at_vector else entry_id(argv[4])
    if stream is not None and stream.find_group(argv[3]) is not None:
        raise CommandError("BUSYGROUP Consumer Group name already exists")
    state.writer.require_issue()
    if stream is None:
        stream = state.writer.for_creation(argv[2])
    state.writer.issue(
        CreateGroup(argv[2], argv[3], start_id, at_vector, dict(state.keyspace.vector))
    )
    if entries_read > 0:
        stream.groups[argv[3]].delivery.entries_read = entries_read
    return OK


def set_id(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XGROUP SETID key group id|$|-|+ [ENTRIESREAD n]: sets the group's floor in this region.

    Given spans beyond the floor are forgotten (S7.4).
    """
    entries_read = _options(argv, 5, False)[1]
    stream = _stream(state, argv[2])
    group = _group(stream, argv[3])
    floor: Place = (
        at_counters(state.keyspace.vector) if argv[4] == b"$" else at_id(id_or_bound(argv[4]))
    )
    last_below: list[EntryRef] = []
    for region_id, log in stream.logs.items():
        counter = floor.counter_in(log)
        if counter:
            last_below.append(entry_ref(region_id, counter, log.id_at(counter)))
    head = head_of(state, stream, group)
    state.writer.record(FloorSet(head, floor, last_below, max(entries_read, 0)))
    state.keyspace.changes.added_keys[stream.key] = None
    return OK


def destroy(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XGROUP DESTROY key group: delete-wins (S6.1); returns 1 if the group existed, else 0."""
    stream = _stream(state, argv[2])
    if stream.find_group(argv[3]) is None:
        return 0
    state.writer.require_issue()
    state.writer.issue(DestroyGroup(argv[2], argv[3]))
    return 1


def create_consumer(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XGROUP CREATECONSUMER key group consumer: returns 1 if the consumer is new, else 0."""
    stream = _stream(state, argv[2])
    group = _group(stream, argv[3])
    if argv[4] in group.delivery.consumers:
        return 0
    state.writer.record(ConsumerMade(head_of(state, stream, group), argv[4]))
    return 1


def delete_consumer(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XGROUP DELCONSUMER key group consumer: returns how many entries it had pending.

    These entries are dropped, and never announced as acknowledged (S8.1).
    """
    stream = _stream(state, argv[2])
    group = _group(stream, argv[3])
    if argv[4] not in group.delivery.consumers:
        return 0
    pending = group.delivery.pel.length_of(argv[4])
    state.writer.record(ConsumerDeleted(head_of(state, stream, group), argv[4]))
    return pending


def help_(state: EngineState, session: Session, argv: list[bytes]) -> Reply:
    """XGROUP HELP: describes the subcommands."""
    return help_reply(
        "XGROUP",
        [
            "CREATE <key> <groupname> <id|$> [option]",
            "    Create a new consumer group. Options are:",
            "    * MKSTREAM",
            "      Create the empty stream if it does not exist.",
            "    * ENTRIESREAD entries_read",
            "      Set the group's entries_read counter (internal use).",
            "CREATECONSUMER <key> <groupname> <consumer>",
            "    Create a new consumer in the specified group, in this region.",
            "DELCONSUMER <key> <groupname> <consumer>",
            "    Remove the specified consumer, in this region.",
            "DESTROY <key> <groupname>",
            "    Remove the specified group, in every region.",
            "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
            "    Set the current group ID, in this region.",
        ],
    )


COMMANDS: Final = [
    Command(
        "xgroup",
        -2,
        "",
        container,
        "A container for consumer group commands.",
        since="5.0.0",
        subcommands=[
            Command(
                "xgroup|create",
                -5,
                "write denyoom",
                create,
                "Creates a consumer group, in every region.",
                key_flags="RW insert",
                keys=(2, 2, 1),
                reply="simple string",
                since="5.0.0",
                syntax="key group id | $ [MKSTREAM] [ENTRIESREAD entries-read]",
            ),
            Command(
                "xgroup|setid",
                -5,
                "write",
                set_id,
                "Sets a group's position in this region.",
                key_flags="RW update",
                changes_local_state=True,
                keys=(2, 2, 1),
                reply="simple string",
                since="5.0.0",
                syntax="key group id | $ [ENTRIESREAD entries-read]",
            ),
            Command(
                "xgroup|destroy",
                4,
                "write",
                destroy,
                "Destroys a consumer group, in every region.",
                key_flags="RW delete",
                keys=(2, 2, 1),
                reply="integer",
                since="5.0.0",
                syntax="key group",
            ),
            Command(
                "xgroup|createconsumer",
                5,
                "write denyoom",
                create_consumer,
                "Creates a consumer in this region.",
                key_flags="RW insert",
                changes_local_state=True,
                keys=(2, 2, 1),
                reply="integer",
                since="6.2.0",
                syntax="key group consumer",
            ),
            Command(
                "xgroup|delconsumer",
                5,
                "write",
                delete_consumer,
                "Deletes a consumer in this region.",
                key_flags="RW delete",
                changes_local_state=True,
                keys=(2, 2, 1),
                reply="integer",
                since="5.0.0",
                syntax="key group consumer",
            ),
            Command(
                "xgroup|help",
                2,
                "loading stale",
                help_,
                "Describes the subcommands of XGROUP.",
                reply="array",
                since="5.0.0",
            ),
        ],
    )
]
