"""Tapes: what is written is read again, and the twin judges it as it judges simulated regions."""

from __future__ import annotations

import errno
from io import FileIO
from pathlib import Path
from typing import Optional, TypeGuard

import pytest

from anabranch.crdt.encoding import Reader
from anabranch.region.engine.replies import (
    NO_REPLY,
    NULL_ARRAY,
    REPLY_LATER,
    ErrorReply,
    MapReply,
    Reply,
    SetReply,
    SimpleString,
    VerbatimText,
)
from anabranch.region.engine.rows import BlockRow
from anabranch.sim import calls
from anabranch.sim.calls import Call
from anabranch.sim.draw import draw_plan
from anabranch.sim.history import Checker, Setup
from anabranch.sim.run import run_world
from anabranch.sim.tapes import writing
from anabranch.sim.tapes.judging import Judge
from anabranch.sim.tapes.reading import Beginning, Frame, TapeError, frames
from anabranch.sim.tapes.values import CallReader, CallWriter, put_reply, read_reply
from anabranch.sim.tapes.writing import TapeWriter, tape_files
from anabranch.sim.world.faults import new_world
from anabranch.sim.world.world import World
from tests.sim.tapped import Tapped, new_state
from tests.sim.test_twin import run_changed
from tests.support.engines import execute

REPLIES: list[Reply] = [
    None,
    -3,
    0,
    1 << 70,
    2.5,
    True,
    b"bytes\x00",
    [b"a", [1, None], []],
    SimpleString(b"OK"),
    ErrorReply("ERR no"),
    NULL_ARRAY,
    MapReply([b"k", [1]]),
    SetReply([b"a"]),
    VerbatimText(b"text"),
    REPLY_LATER,
    NO_REPLY,
]


def test_a_tape_holds_no_password(tmp_path: Path) -> None:
    """Whoever may read a tape could else command the region."""
    writer = TapeWriter(tmp_path, 10_000_000)
    engine = writer.make_engine(new_state(1, 1))
    session = engine.clients.connect("test", "test", 1000)
    for line in (
        "CONFIG SET requirepass sesame",
        "AUTH sesame",
        "AUTH default sesame",
        "HELLO 3 AUTH default sesame SETNAME me",
        "CONFIG GET requirepass",
        "CONFIG GET *",
        "MULTI",
        "CONFIG GET require*",
        "XADD k * f v",
        "EXEC",
    ):
        execute(engine, session, line.encode().split(), 1000)
    writer.close()
    (tape,) = tape_files(tmp_path)
    written = tape.read_bytes()
    assert b"sesame" not in written and b"(hidden)" in written and b"SETNAME" in written


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_replies_are_read_as_they_were_written(reply: Reply) -> None:
    out = bytearray()
    put_reply(out, reply)
    reader = Reader(bytes(out))
    again = read_reply(reader)
    same = bytearray()
    put_reply(same, again)
    assert reader.at_end() and type(again) is type(reply) and same == out


@pytest.mark.parametrize("seed", [3, 8, 12])
def test_the_twin_judges_calls_that_were_on_a_tape(seed: int) -> None:
    """Calls of whole simulated runs, with snapshots, restarts and waiting clients."""
    writers: dict[int, CallWriter] = {}
    readers: dict[int, CallReader] = {}
    kinds: set[str] = set()

    def on_tape(call: Call) -> Optional[Call]:
        out = bytearray()
        writers.setdefault(call.region, CallWriter()).put(out, call)
        reader = Reader(bytes(out))
        again = readers.setdefault(call.region, CallReader(call.region)).read(reader)
        assert reader.at_end()
        again.at_ms, again.start, again.how = call.at_ms, call.start, call.how
        kinds.add(call.kind)
        return again

    assert run_changed(seed, on_tape) == []
    assert {calls.EXECUTE, calls.MERGE, calls.COMMIT, calls.TICK} <= kinds


class Taped(Tapped):
    """A region whose engine writes tapes into a folder."""

    def __init__(
        self, folder: Path, region: int, regions: int, bytes_max: int, name: str = ""
    ) -> None:
        self.folder = folder / (name or str(region))
        self.writer = TapeWriter(self.folder, bytes_max)
        self.region, self.now_ms, self.blocks = region, 1000, []
        self.engine = self.writer.make_engine(new_state(region, regions))
        self.session = self.engine.clients.connect("test", "test", self.now_ms)


def use(us: Taped, eu: Taped, times: int) -> None:
    """Clients of two regions add, read, acknowledge, wait, and use transactions."""
    reader = us.engine.clients.connect("reader", "test", us.now_ms)
    us("XGROUP CREATE k g 0 MKSTREAM")
    execute(us.engine, reader, b"XREAD BLOCK 0 STREAMS other $".split(), us.now_ms)
    for number in range(times):
        us.ok(f"XADD k MAXLEN ~ 50 * t {number}")
        us.ok("XREADGROUP GROUP g c COUNT 2 STREAMS k >")
        eu.ok(f"XADD k IDMP p {number} * t {number}")
        us.ok("CLIENT ID")
        us("NOSUCH")
        us("XADD k")
        for command in ("MULTI", "XLEN k", "EXEC"):
            us.ok(command)
        us.commit()
        eu.commit()
        us.take(eu)
        eu.take(us)
        us.at(us.now_ms + 10)
    us.ok("XADD other * t last")
    assert [one.session for one in us.engine.clients.take_replies()] == [reader]


def judged(folder: Path) -> Judge:
    judge = Judge([file for one in ("1", "2") for file in tape_files(folder / one)])
    judge.run()
    return judge


@pytest.mark.parametrize("bytes_max", [1 << 20, 6000])
def test_tapes_of_regions_that_are_right(tmp_path: Path, bytes_max: int) -> None:
    us, eu = Taped(tmp_path, 1, 2, bytes_max), Taped(tmp_path, 2, 2, bytes_max)
    use(us, eu, 40)
    us.writer.close()
    eu.writer.close()
    files = tape_files(us.folder)
    assert len(files) == (1 if bytes_max > 6000 else 2)
    assert int(files[-1].stem) > 3 or bytes_max > 6000
    judge = judged(tmp_path)
    assert judge.wrong is None, judge.wrong.text
    assert [one.notes for one in judge.replays] == [[], []]
    assert sum(one.calls for one in judge.replays) > (400 if bytes_max > 6000 else 50)


def test_a_transaction_may_hold_what_the_twin_leaves_to_others(tmp_path: Path) -> None:
    """PING and ECHO in MULTI were taken for commands that the region should have refused."""
    us, eu = Taped(tmp_path, 1, 2, 1 << 20), Taped(tmp_path, 2, 2, 1 << 20)
    for command in ("MULTI", "PING", "XADD k * t a", "OBJECT ENCODING k", "XLEN k", "EXEC"):
        us.ok(command)
    # The twin does not know these at all.
    for command in ("MULTI", "ECHO a", "XADD k * t c", "CLIENT ID", "XLEN k", "EXEC", "XLEN k"):
        us.ok(command)
    for refused in ("ROLE x", "EVALSHA x 0", "CLUSTER INFO", "ECHO", "SETRANGE k 0 a"):
        us.ok("MULTI")
        us("XADD k * t b")
        assert isinstance(us(refused), ErrorReply)
        us("EXEC")
    us.writer.close()
    eu.writer.close()
    judge = judged(tmp_path)
    assert judge.wrong is None, judge.wrong.text
    assert [one.notes for one in judge.replays] == [[], []]


def test_a_wrong_reply_is_told_with_what_came_before_it(tmp_path: Path) -> None:
    us, eu = Taped(tmp_path, 1, 2, 1 << 20), Taped(tmp_path, 2, 2, 1 << 20)
    take = us.writer._take

    def lying(call: Call) -> None:
        if call.argv[:1] == (b"XLEN",) and call.replies == [3]:
            call.replies = [4]
        take(call)

    us.writer._take = lying  # type: ignore[method-assign]
    for token in "abc":
        us.ok(f"XADD k * t {token}")
    us.ok("XLEN k")
    us.writer.close()
    eu.writer.close()
    wrong = judged(tmp_path).wrong
    assert wrong is not None and wrong.region == "us"
    assert "XLEN k: replied 4; expected 3" in wrong.text
    assert len(wrong.story) == 3 and "XADD k * t a" in wrong.story[0]


def test_a_command_that_the_twin_does_not_know_ends_the_judgement(tmp_path: Path) -> None:
    """It goes on where the next file begins. Here the tape renames the command."""
    us, eu = Taped(tmp_path, 1, 2, 3000), Taped(tmp_path, 2, 2, 1 << 20)
    take = us.writer._take

    def renaming(call: Call) -> None:
        if call.argv[:1] == (b"XDEL",):
            call.argv = (b"XNEW", *call.argv[1:])
        take(call)

    us.writer._take = renaming  # type: ignore[method-assign]
    us.ok("XADD k 1000 t a")
    us.ok("XDEL k 1000-1")
    for _ in range(40):
        us.ok("XADD k * t b")
        us.commit()
    us.writer.close()
    eu.writer.close()
    judge = judged(tmp_path)
    assert judge.wrong is None
    assert judge.replays[0].notes == []
    us.folder.joinpath("00000001.tape").exists()


class FullDisk(FileIO):
    """A file on a disk that is full."""

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "no space")


@pytest.mark.parametrize("waiting_max, parts", [(4 << 20, 1), (100, 2)])
def test_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waiting_max: int, parts: int
) -> None:
    """What the disk does not take waits. If that is too much, the tape goes on in another file."""
    monkeypatch.setattr(writing, "_WAITING_BYTES_MAX", waiting_max)
    us, eu = Taped(tmp_path, 1, 2, 1 << 20), Taped(tmp_path, 2, 2, 1 << 20)
    us("XADD k * t before")
    us.commit()
    whole = us.writer._file
    us.writer._file = FullDisk(tmp_path / "full", "wb")
    us("XADD k * t meanwhile")
    us.commit()
    assert (us.writer._file is None) == (parts == 2)
    if us.writer._file is not None:
        us.writer._file = whole
    us.at(us.now_ms + 1000)
    us("XADD k * t later")
    us.commit()
    us("XLEN k")
    us.writer.close()
    eu.writer.close()
    judge = judged(tmp_path)
    assert judge.wrong is None, judge.wrong.text
    assert [one.parts for one in judge.replays] == [parts, 1]
    seen = [call.argv for file in tape_files(us.folder) for call in frames(file) if is_run(call)]
    assert len(seen) == (4 if parts == 1 else 2) and seen[-1] == (b"XLEN", b"k")


def is_run(frame: Frame) -> TypeGuard[Call]:
    return isinstance(frame, Call) and frame.kind == calls.EXECUTE


def test_a_start_finds_what_the_tape_holds(tmp_path: Path) -> None:
    """The twin replays the rows that a start found; what was not on disk is gone."""
    us, eu = Taped(tmp_path, 1, 2, 1 << 20), Taped(tmp_path, 2, 2, 1 << 20)
    us.ok("XADD k * t a")
    us.commit()
    us.ok("XADD k * t lost")
    us.writer.close()
    again = Taped(tmp_path, 1, 2, 1 << 20)
    again.writer.close()
    eu.writer.close()
    # The second process found nothing on its disk, as after a restored backup of an empty region.
    judge = judged(tmp_path)
    assert judge.wrong is None
    assert [one.parts for one in judge.replays] == [1, 1]
    twin = judge.replays[0].twin
    assert twin is not None and not twin.state.keys


def test_a_process_numbers_its_cuts_from_one_on(tmp_path: Path) -> None:
    """A snapshot was once judged as a later one, which the restarted sender made under the same
    number. Found by a run of chaos."""
    us, eu = Taped(tmp_path, 1, 2, 1 << 20), Taped(tmp_path, 2, 2, 1 << 20)
    us.ok("XADD k * t a")
    us.commit()
    chunks = list(us.engine.peers.snapshots.cut().chunks(1 << 20))
    us.writer.close()
    again = Taped(tmp_path, 1, 2, 1 << 20)
    for _ in range(3):
        again.ok("XADD k * t b")
    again.commit()
    assert list(again.engine.peers.snapshots.cut().chunks(1 << 20)) != chunks
    eu.engine.peers.snapshots.join(chunks, 1, eu.now_ms)
    eu.commit()
    assert eu.ok("XLEN k") == 1
    for one in (again, eu):
        one.writer.close()
    judge = judged(tmp_path)
    assert judge.wrong is None, judge.wrong.text
    assert [one.notes for one in judge.replays] == [[], []]


def test_a_rebuilt_region_merges_its_salvage(tmp_path: Path) -> None:
    """The twin takes the blocks of a damaged log as it takes those of a peer (S13.7)."""
    us, eu = Taped(tmp_path, 1, 2, 1 << 20), Taped(tmp_path, 2, 2, 1 << 20)
    us.ok("XADD k * t a")
    us.commit()
    us.writer.close()
    again = Taped(tmp_path, 1, 2, 1 << 20)
    assert again.engine.salvage.merge(us.blocks, again.now_ms) == 1
    again.commit()
    assert again.ok("XLEN k") == 1
    again.writer.close()
    eu.writer.close()
    judge = judged(tmp_path)
    assert judge.wrong is None, judge.wrong.text
    assert [one.parts for one in judge.replays] == [1, 1]


def test_a_file_that_ends_in_the_middle_of_a_frame(tmp_path: Path) -> None:
    us = Taped(tmp_path, 1, 1, 1 << 20)
    us.ok("XADD k * t a")
    us.writer.close()
    (file,) = tape_files(us.folder)
    whole = list(frames(file))
    file.write_bytes(file.read_bytes()[:-1])
    assert isinstance(whole[0], Call) and whole[0].kind == calls.START
    assert isinstance(whole[1], Beginning) and len(list(frames(file))) == len(whole) - 1
    file.write_bytes(b"something else")
    with pytest.raises(TapeError, match="is no tape"):
        list(frames(file))


def test_blocks_of_a_tape_have_their_rows(tmp_path: Path) -> None:
    us = Taped(tmp_path, 1, 1, 1 << 20)
    us.ok("XADD k * t a")
    commit = us.engine.disk.take_commit(us.now_ms)
    assert commit is not None and isinstance(commit.rows[0], BlockRow)
    us.writer.close()
    told = [one for one in frames(tape_files(us.folder)[0]) if isinstance(one, Call)]
    assert [row.kind for one in told for row in one.rows] == ["block"]


# -- simulated regions


class Taper(Checker):
    """Writes the tapes of all regions of a simulated run. `world` and `folder` are set later."""

    name = "taper"
    world: World
    folder: Path
    bytes_max = 1 << 30

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.writers: dict[int, TapeWriter] = {}
        # Number of a cut → the region that made it; those whose chunks were told.
        self.made: dict[int, int] = {}
        self.told: set[int] = set()

    def called(self, call: Call) -> None:
        writer = self.writers.get(call.region)
        if writer is None:
            folder = self.folder / str(call.region)
            writer = self.writers[call.region] = TapeWriter(folder, self.bytes_max)
        writer._engine = self.world.regions[call.region].engine
        self._tell_cuts()
        if call.kind == calls.CUT:
            self.made[call.cut] = call.region
        if call.kind == calls.JOIN:
            digests = {cut: digest for digest, cut in self.world.environment.cuts.items()}
            writer.cut_of(digests.get(call.cut, bytes(16)))
        writer.called(call)

    def _tell_cuts(self) -> None:
        for digest, cut in self.world.environment.cuts.items():
            if cut not in self.told and cut in self.made:
                self.told.add(cut)
                self.writers[self.made[cut]].cut_sent(digest, cut)


@pytest.mark.parametrize("bytes_max", [1 << 30, 20_000])
@pytest.mark.parametrize("seed", [8, 12, 120, 124])
def test_tapes_of_simulated_regions(tmp_path: Path, seed: int, bytes_max: int) -> None:
    """Restarts, snapshots and clients that wait, with one file for each start, and with many."""
    world = new_world(draw_plan(seed), [Taper], None)
    (taper,) = [judge for judge in world.judges if isinstance(judge, Taper)]
    taper.world, taper.folder, taper.bytes_max = world, tmp_path, bytes_max
    assert run_world(world).violations == []
    for writer in taper.writers.values():
        writer.close()
    judge = Judge([file for one in taper.writers for file in tape_files(tmp_path / str(one))])
    judge.run()
    assert judge.wrong is None, judge.wrong.text
    assert [note for one in judge.replays for note in one.notes] == []
    assert sum(one.calls for one in judge.replays) > 100
    if bytes_max > 20_000:
        assert [one.parts for one in judge.replays] == [1] * len(judge.replays)
