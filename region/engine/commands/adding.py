"""Commands that add and remove entries: XADD, XTRIM, XDEL, XSETID, XCFGSET (S4, S5, S9)."""

from __future__ import annotations

from typing import Final, Optional

from xxhash import xxh3_128_intdigest

from crdt import ids, merge
from crdt.effects import AddIdempotent, Configure, RemoveEntries, SetId, Trim
from crdt.encoding import put_varint
from crdt.node import encode_names, encode_values
from crdt.region_log import LogCursor, RegionLog
from crdt.stream import Stream
from crdt.vector import Dot, Vector, covers
from region.engine.commands.arguments import NO_SUCH_KEY, SYNTAX_ERROR, entry_id, help_reply, integer, wrong_arity
from region.engine.core import Core
from region.engine.replies import OK, CommandError, Reply
from region.engine.session import Session
from region.engine.table import Command

DEFAULT_TRIM_LIMIT_NODES: Final = 100


class TrimRequest:
    """MAXLEN or MINID with its options. `references` is "KEEPREF", "DELREF" or "ACKED"."""

    def __init__(self) -> None:
        self.strategy = ""  # "MAXLEN", "MINID", or "" for none
        self.is_approximate = False
        self.threshold = 0
        self.limit = -1  # -1: not given
        self.references = ""


class AddRequest:
    """What an XADD says before its fields."""

    def __init__(self) -> None:
        self.creates_key = True
        self.trim = TrimRequest()
        self.pid = b""
        self.iid = b""
        self.is_idmp = False
        self.is_idmp_auto = False
        self.id = ids.ANY
        self.fields_at = 3


# -- parsing ---------------------------------------------------------------------------------------------------------


def _parse_trim(argv: list[bytes], index: int, strategy: str, trim: TrimRequest) -> int:
    """Reads what follows MAXLEN or MINID at `index`; the index after it."""
    if trim.strategy:
        raise CommandError("ERR syntax error, MAXLEN and MINID options at the same time are not compatible")
    trim.strategy = strategy
    index += 1
    if index < len(argv) - 1 and argv[index] in (b"~", b"="):
        trim.is_approximate = argv[index] == b"~"
        index += 1
    if index >= len(argv):
        raise CommandError(SYNTAX_ERROR)
    if strategy == "MAXLEN":
        trim.threshold = integer(argv[index])
        if trim.threshold < 0:
            raise CommandError("ERR The MAXLEN argument must be >= 0.")
    else:
        trim.threshold = entry_id(argv[index])
    return index + 1


def _parse_trim_option(argv: list[bytes], index: int, option: bytes, trim: TrimRequest) -> int:
    """Reads MAXLEN, MINID, LIMIT, KEEPREF, DELREF or ACKED at `index`; the index after it, or `index` if it is none of them."""
    if option in (b"MAXLEN", b"MINID"):
        return _parse_trim(argv, index, option.decode(), trim)
    if option == b"LIMIT" and index + 1 < len(argv):
        trim.limit = integer(argv[index + 1])
        if trim.limit < 0:
            raise CommandError("ERR The LIMIT argument must be >= 0.")
        return index + 2
    if option in (b"KEEPREF", b"DELREF", b"ACKED"):
        if trim.references:
            raise CommandError(SYNTAX_ERROR)
        trim.references = option.decode()
        return index + 1
    return index


def _check_trim(trim: TrimRequest, default_limit: int) -> None:
    if trim.limit >= 0 and not trim.strategy:
        raise CommandError("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy")
    if trim.limit >= 0 and not trim.is_approximate:
        raise CommandError("ERR syntax error, LIMIT cannot be used without the special ~ option")
    if trim.limit < 0 and trim.is_approximate:
        trim.limit = default_limit


def _parse_idempotency(argv: list[bytes], index: int, option: bytes, request: AddRequest) -> int:
    """Reads IDMP pid iid or IDMPAUTO pid; the index after it."""
    if request.is_idmp:
        raise CommandError("ERR syntax error, IDMP/IDMPAUTO specified multiple times")
    request.is_idmp = True
    name = option.decode()
    if option == b"IDMPAUTO":
        request.is_idmp_auto = True
        needed = 1
    else:
        needed = 2
    if index + needed >= len(argv):
        raise CommandError(SYNTAX_ERROR)
    request.pid = argv[index + 1]
    if not request.pid:
        raise CommandError(f"ERR syntax error, {name} requires a non-empty producer ID")
    if needed == 2:
        request.iid = argv[index + 2]
        if not request.iid:
            raise CommandError("ERR syntax error, IDMP requires a non-empty idempotent ID")
    return index + needed + 1


def _parse_add(argv: list[bytes], default_limit: int) -> AddRequest:
    """XADD's options and ID."""
    request = AddRequest()
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option == b"NOMKSTREAM":
            request.creates_key = False
            index += 1
        elif option in (b"IDMP", b"IDMPAUTO"):
            index = _parse_idempotency(argv, index, option, request)
        else:
            after = _parse_trim_option(argv, index, option, request.trim)
            if after == index:
                break
            index = after
    if index >= len(argv):
        raise wrong_arity_error("xadd")
    try:
        request.id = ids.parse_request(argv[index])
    except ids.IdError as error:
        raise CommandError(str(error)) from None
    if request.is_idmp and request.id.kind != ids.AUTO:
        raise CommandError("ERR syntax error, IDMP/IDMPAUTO can be used only with auto-generated IDs")
    _check_trim(request.trim, default_limit)
    request.fields_at = index + 1
    fields = len(argv) - request.fields_at
    if fields < 2 or fields % 2:
        raise wrong_arity_error("xadd")
    return request


def wrong_arity_error(name: str) -> CommandError:
    return CommandError(wrong_arity(name).message)


# -- XADD ------------------------------------------------------------------------------------------------------------


def xadd(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XADD: picks an ID (S4), issues an add, and trims."""
    if argv[2] == b"*" and len(argv) % 2 == 1:
        request = None
        fields_at = 3
    else:
        request = _parse_add(argv, DEFAULT_TRIM_LIMIT_NODES * core.keyspace.limits.max_entries)
        fields_at = request.fields_at
    key = argv[1]
    stream = core.existing(key)
    if request is not None:
        if stream is None and not request.creates_key:
            if request.id.kind in (ids.FULL, ids.MS_ONLY) and request.id.ms == 0 and request.id.seq == 0:
                raise CommandError(ids.ERR_ZERO)
            return None
        if request.is_idmp:
            return _add_idempotent(core, session, request, stream, argv)
    core.require_issue()
    last_id = 0 if stream is None else stream.last_id()
    try:
        new_id = ids.choose(ids.ANY if request is None else request.id, core.id_mode, core.region_id, last_id, core.clock_ms)
    except ids.IdError as error:
        raise CommandError(str(error)) from None
    if stream is None:
        stream = core.for_creation(key)
    if core.oldest_unsaved_ms == 0:
        core.oldest_unsaved_ms = core.steady_ms
    core.journal.add(stream, new_id, encode_names(argv[fields_at::2]), encode_values(argv[fields_at + 1 :: 2]))
    if request is not None and request.trim.strategy:
        trim(core, stream, request.trim)
    return b"%d-%d" % (new_id >> 64, new_id & ids.MAX_HALF)


def automatic_iid(fields: list[bytes]) -> bytes:
    """IDMPAUTO's iid (S9.5): a sum, so order does not matter and equal pairs do not cancel out. Part of the wire contract."""
    total = 0
    for index in range(0, len(fields), 2):
        pair = bytearray()
        put_varint(pair, len(fields[index]))
        pair += fields[index]
        pair += fields[index + 1]
        total += xxh3_128_intdigest(pair)
    return (total & ((1 << 128) - 1)).to_bytes(16, "big")


def configuration(core: Core, stream: Optional[Stream]) -> tuple[int, int]:
    """(duration in s, maxsize) in force for a stream (S9.4)."""
    value = None if stream is None else stream.configuration()
    return value if value is not None else (core.settings.integer("stream-idmp-duration"), core.settings.integer("stream-idmp-maxsize"))


def _add_idempotent(core: Core, session: Session, request: AddRequest, stream: Optional[Stream], argv: list[bytes]) -> Reply:
    """XADD … IDMP | IDMPAUTO (S9): a repeated pair answers with the first entry's ID and changes nothing."""
    fields = argv[request.fields_at :]
    iid = automatic_iid(fields) if request.is_idmp_auto else request.iid
    duration_s, maxsize = configuration(core, stream)
    if stream is not None:
        pair = stream.pairs.answer(request.pid, iid, core.clock_ms, duration_s * 1000)
        if pair is not None:
            stream.iids_duplicates += 1
            return ids.format_id(pair.entry_id)
    core.require_issue()
    last_id = 0 if stream is None else stream.last_id()
    try:
        new_id = ids.choose(request.id, core.id_mode, core.region_id, last_id, core.clock_ms)
    except ids.IdError as error:
        raise CommandError(str(error)) from None
    if stream is None:
        stream = core.for_creation(argv[1])
    vector = dict(core.keyspace.vector)
    names = encode_names(fields[::2])
    core.issue(AddIdempotent(argv[1], new_id, names, encode_values(fields[1::2]), request.pid, iid, core.clock_ms, vector))
    evict_pairs(core, stream, request.pid, maxsize)
    if request.trim.strategy:
        trim(core, stream, request.trim)
    return ids.format_id(new_id)


def evict_pairs(core: Core, stream: Stream, pid: bytes, maxsize: int) -> None:
    """Keeps a producer within its maxsize (S9.3); an evicted pair that is not yet stable may leave a duplicate, and is counted."""
    evicted = stream.pairs.evict(pid, maxsize)
    if evicted:
        stable = core.stable_vector()
        core.statistics.idmp_evicted_early += sum(1 for pair in evicted if not covers(stable, *pair.dot))


# -- XTRIM -----------------------------------------------------------------------------------------------------------


def trim(core: Core, stream: Stream, request: TrimRequest) -> int:
    """Trims as decided on the local logical stream (S5.2); how many entries went."""
    prefix = _prefix(stream, request)
    if prefix and request.references == "ACKED":
        prefix = {region_id: _acked_limit(stream, region_id, counter) for region_id, counter in prefix.items()}
    if prefix and request.is_approximate:
        prefix = merge.whole_nodes(stream.logs, prefix, request.limit)
    before = stream.length()
    prefix = {region_id: counter for region_id, counter in prefix.items() if _removes(stream.logs[region_id], counter)}
    if prefix:
        core.require_issue()
        core.issue(Trim(stream.key, prefix, request.references == "DELREF"))
    return before - stream.length()


def _prefix(stream: Stream, request: TrimRequest) -> Vector:
    """The prefix of each region log that exact trimming removes."""
    if request.strategy == "MINID":
        return merge.prefix_below_id(stream.logs, request.threshold)
    excess = stream.length() - request.threshold
    if excess <= 0:
        return {}
    if request.is_approximate and not any(log.rax.nodes and log.rax.nodes[0].live() <= excess for log in stream.logs.values()):
        return {}
    return merge.prefix_of_count(stream.logs, excess)


def _removes(log: RegionLog, counter: int) -> bool:
    """Whether the prefix holds an entry."""
    return log.last_counter_up_to(counter) > 0


def _acked_limit(stream: Stream, region_id: int, counter: int) -> int:
    """ACKED (S5.3): stops before the first entry that some group known here has above its floor and not given, or pending."""
    cursor = LogCursor(stream.logs[region_id])
    cursor.seek_counter(0)
    limit = 0
    while cursor.valid and cursor.counter <= counter:
        if is_referenced(stream, region_id, cursor.counter, cursor.id()):
            break
        limit = cursor.counter
        cursor.step()
    return limit


def is_referenced(stream: Stream, region_id: int, counter: int, entry_id_: int) -> bool:
    """Whether some group known here has still to do with that entry."""
    for group in stream.groups.values():
        delivery = group.delivery
        if delivery.pel.get(region_id, counter, entry_id_) is not None:
            return True
        given = delivery.given.get(region_id)
        if (given is None or not given.contains(counter)) and group.is_above_floor(region_id, counter, entry_id_):
            return True
    return False


def xtrim(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XTRIM."""
    request = TrimRequest()
    index = 2
    while index < len(argv):
        after = _parse_trim_option(argv, index, argv[index].upper(), request)
        if after == index:
            raise CommandError(SYNTAX_ERROR)
        index = after
    _check_trim(request, DEFAULT_TRIM_LIMIT_NODES * core.keyspace.limits.max_entries)
    if not request.strategy:
        raise CommandError("ERR syntax error, XTRIM must be called with a trimming strategy")
    stream = core.existing(argv[1])
    return 0 if stream is None else trim(core, stream, request)


# -- XDEL, XSETID, XCFGSET -------------------------------------------------------------------------------------------


def xdel(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XDEL: the dots of all entries that bear an ID (S5.1); counts entries."""
    stream = core.existing(argv[1])
    if stream is None:
        return 0
    wanted = [entry_id(text) for text in argv[2:]]
    dots: list[Dot] = []
    for one in dict.fromkeys(wanted):
        dots.extend(merge.with_id(stream.logs, one))
    if dots:
        core.require_issue()
        core.issue(RemoveEntries(argv[1], dots))
    return len(dots)


def xsetid(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XSETID: fails below the current last ID (S3.2). ENTRIESADDED and MAXDELETEDID set local statistics."""
    new_id = entry_id(argv[2])
    entries_added = -1
    max_deleted = -1
    index = 3
    while index < len(argv):
        option = argv[index].upper()
        if index + 1 >= len(argv):
            raise CommandError(SYNTAX_ERROR)
        if option == b"ENTRIESADDED":
            entries_added = integer(argv[index + 1])
            if entries_added < 0:
                raise CommandError("ERR entries_added must be positive")
        elif option == b"MAXDELETEDID":
            max_deleted = entry_id(argv[index + 1])
            if new_id < max_deleted:
                raise CommandError("ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id")
        else:
            raise CommandError(SYNTAX_ERROR)
        index += 2
    stream = core.existing(argv[1])
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    if new_id < stream.last_id():
        raise CommandError("ERR The ID specified in XSETID is smaller than the target stream top item")
    if 0 <= entries_added < stream.length():
        raise CommandError("ERR The entries_added specified in XSETID is smaller than the target stream length")
    if new_id > stream.last_id() or not stream.header:
        core.require_issue()
        core.issue(SetId(argv[1], new_id))
    if entries_added >= 0:
        stream.entries_added = entries_added
    if max_deleted >= 0:
        stream.max_deleted_id = max_deleted
    return OK


def xcfgset(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XCFGSET (S9.4): a change replaces the configurations seen and clears the pairs seen; no change, no effect."""
    stream = core.existing(argv[1])
    if stream is None:
        raise CommandError(NO_SUCH_KEY)
    current = configuration(core, stream)
    duration_s, maxsize = current
    seen: set[bytes] = set()
    index = 2
    while index < len(argv):
        option = argv[index].upper()
        if option not in (b"IDMP-DURATION", b"IDMP-MAXSIZE") or index + 1 >= len(argv):
            raise CommandError(SYNTAX_ERROR)
        if option in seen:
            raise CommandError(f"ERR {option.decode()} specified multiple times")
        seen.add(option)
        value = integer(argv[index + 1])
        if option == b"IDMP-DURATION":
            if not 1 <= value <= 86400:
                raise CommandError("ERR IDMP-DURATION must be between 1 and 86400 seconds")
            duration_s = value
        else:
            if not 1 <= value <= 10000:
                raise CommandError("ERR IDMP-MAXSIZE must be between 1 and 10000 entries")
            maxsize = value
        index += 2
    if not seen:
        raise CommandError("ERR At least one parameter must be specified")
    if (duration_s, maxsize) != current:
        core.require_issue()
        core.issue(Configure(argv[1], duration_s, maxsize, list(stream.configurations), dict(core.keyspace.vector)))
    return OK


def xidmp(core: Core, session: Session, argv: list[bytes]) -> Reply:
    """XIDMP CFGSET | CFGGET, seed 4's spelling: `key [DURATION d] [MAXSIZE m]`."""
    subcommand = argv[1].upper()
    if subcommand == b"HELP":
        return help_reply("XIDMP", ["CFGSET <key> [DURATION <s>] [MAXSIZE <n>]", "CFGGET <key> [DURATION] [MAXSIZE]"])
    if len(argv) < 3:
        raise wrong_arity_error("xidmp|" + subcommand.decode("latin-1").lower())
    if subcommand == b"CFGSET":
        names = {b"DURATION": b"IDMP-DURATION", b"MAXSIZE": b"IDMP-MAXSIZE"}
        return xcfgset(core, session, [argv[0], argv[2]] + [names.get(word.upper(), word) for word in argv[3:]])
    if subcommand == b"CFGGET":
        stream = core.existing(argv[2])
        if stream is None:
            raise CommandError(NO_SUCH_KEY)
        duration_s, maxsize = configuration(core, stream)
        wanted = {word.upper() for word in argv[3:]} or {b"DURATION", b"MAXSIZE"}
        if not wanted <= {b"DURATION", b"MAXSIZE"}:
            raise CommandError(SYNTAX_ERROR)
        reply: list[Reply] = []
        if b"DURATION" in wanted:
            reply += [b"duration", duration_s]
        if b"MAXSIZE" in wanted:
            reply += [b"maxsize", maxsize]
        return reply
    raise CommandError(SYNTAX_ERROR)


COMMANDS: Final = [
    Command(
        "xadd", -5, "write denyoom fast", xadd, "Appends an entry to a stream.", keys=(1, 1, 1), reply="bulk string", since="5.0.0",
        syntax="key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMP pid iid | IDMPAUTO pid] [MAXLEN | MINID [= | ~] threshold [LIMIT count]] "
        "* | id field value [field value ...]",
    ),
    Command(
        "xtrim", -4, "write", xtrim, "Removes entries from the beginning of a stream.", keys=(1, 1, 1), reply="integer", since="5.0.0",
        syntax="key MAXLEN | MINID [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
    ),
    Command(
        "xdel", -3, "write fast", xdel, "Removes entries by ID.", keys=(1, 1, 1), reply="integer", since="5.0.0", syntax="key id [id ...]"
    ),
    Command(
        "xsetid", -3, "write denyoom fast", xsetid, "Raises a stream's last ID.", keys=(1, 1, 1), reply="simple string", since="5.0.0",
        syntax="key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]",
    ),
    Command(
        "xcfgset", -2, "write fast", xcfgset, "Sets how long and how many idempotency pairs a stream keeps.", keys=(1, 1, 1),
        reply="simple string", since="8.6.0", syntax="key [IDMP-DURATION seconds] [IDMP-MAXSIZE entries]",
    ),
    Command(
        "xidmp", -2, "write fast", xidmp, "The older spelling of XCFGSET, and its reading twin.", keys=(2, 2, 1),
        reply="simple string or array", since="8.6.0", syntax="CFGSET | CFGGET key [DURATION seconds] [MAXSIZE entries]",
    ),
]  # fmt: skip
