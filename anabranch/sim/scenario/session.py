"""A session on a live cluster, recorded from the effect logs of its regions.

Clients use the regions' own addresses. Links are closed but in Sync rows, so a region's commands
between two of these depend on no other region. The effect log of each region tells them
(`effect_commands`), and rows have the order of the generated IDs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, groupby
from typing import Any, Final, TypeVar

from anabranch.answers import info_of, vector_of
from anabranch.cluster.errors import ClusterError
from anabranch.crdt.vector import covers
from anabranch.region.engine.history import EVENTS_MAX
from anabranch.region.engine.settings import Settings
from anabranch.region.resp.decoder import DecodedReply
from anabranch.sim.history import Words
from anabranch.sim.plan import shape_of
from anabranch.sim.scenario.effect_commands import RegionState, halves, id_in
from anabranch.sim.scenario.live import MODE_SETTING, LiveCluster
from anabranch.sim.scenario.model import Cut, Heal, Scenario, Sync
from anabranch.sim.scenario.runner import Run
from anabranch.sim.scenario.shape import shape
from anabranch.sim.scenario.shape import text as text_of
from anabranch.sim.scenario.transcript import Row, command_cell, write_session, written_reply
from anabranch.sim.scenario.writing import settings_lines
from anabranch.sim.world.environment import EPOCH_MS
from anabranch.study.replies.events import KeyEvent, event_of
from anabranch.study.replies.parts import fields_of, raw

# Settings that change replies; values other than the defaults go into the header.
_SETTINGS: Final = (
    MODE_SETTING,
    "stream-node-max-entries",
    "stream-node-max-bytes",
    "stream-idmp-duration",
    "stream-idmp-maxsize",
    "crdt-expiry-grace-ms",
)
# How often a region is read while clients write to it.
_READINGS_MAX: Final = 50
_STEPS: Final = {"Sync": Sync, "Cut": Cut, "Heal": Heal}

Found = TypeVar("Found")
# A time in ms on the region's clock, and a sequence number; for an add its generated ID.
At = tuple[int, int]


class Refused(Exception):
    """A line that a scenario cannot hold; the text says why."""


class Session:
    """The recorder. It begins on an empty cluster; `close` opens its links and keeps its data.

    `notes` receives remarks for the user about what the file may not repeat exactly.
    """

    def __init__(self, cluster: LiveCluster, title: str) -> None:
        self.cluster: Final = cluster
        self.names: Final = {one: end.name for one, end in sorted(cluster.endpoints.items())}
        self.title: Final = title
        self.notes: Final[dict[str, None]] = {}
        self._settings: Final = {
            name: {one: cluster.setting(one, name) for one in self.names} for name in _SETTINGS
        }
        regions = tuple(self.names)
        modes = self._settings[MODE_SETTING]
        scenario = Scenario(
            path="",
            title=title,
            steps=(),
            columns=regions,
            members=len(regions),
            own_settings=tuple((one, MODE_SETTING, mode) for one, mode in modes.items()),
            regions=regions,
            links=shape_of("mesh", regions),
        )
        cluster.prepare(scenario)
        self._run: Final = Run(scenario, cluster)
        self._begun_ms: Final = self._time_ms(regions[0])
        # The regions are level here.
        self._begun: Final = cluster.vectors(regions)[regions[0]]
        self._others: Final[dict[tuple[str, str], str]] = {}
        self._states: Final = {
            one: RegionState(one, mode == "strict", self._others) for one, mode in modes.items()
        }
        # Own counter up to which a region's effects have been searched for keys.
        self._searched: Final = {one: self._begun.get(one, 0) for one in regions}
        # key → region → position in its log up to which events have been taken.
        self._taken: Final[dict[bytes, dict[int, int]]] = {}
        # region → its cells since the last Sync, Cut or Heal.
        self._cells: Final[dict[int, list[tuple[At, str]]]] = {one: [] for one in regions}
        self._rows: list[Row] = []

    # -- what the regions tell

    def gather(self) -> bool:
        """Takes what the regions have done since the last time; whether there was anything."""
        for region in self.names:
            self._find_keys(region)
        return sum(self._gather(region) for region in self.names) > 0

    def _ask(self, region: int, *words: bytes | str | int) -> dict[str, Any]:
        reply = self.cluster.ask(region, *words)
        if not isinstance(reply, list):
            raise ClusterError(f"{self.names[region]}: {words[0]!s} answered {reply!r}")
        return fields_of(reply)

    def _find_keys(self, region: int) -> None:
        """Notes the keys of effects that the region's commands issued."""
        after: Any = self._searched[region]
        while after is not None:
            told = self._ask(region, "CRDT.EFFECTS", region, after, "COUNT", EVENTS_MAX, "NOFIELDS")
            for effect in map(fields_of, told["events"]):
                self._searched[region] = effect["dot"][1]
                if effect["key"] is not None and effect["command"]:
                    self._taken.setdefault(effect["key"], dict.fromkeys(self.names, 0))
            after = told["next"]

    def _gather(self, region: int) -> int:
        """Takes the new events of all keys in one region, in the order of its log."""
        found = [
            (text_of(key), event) for key in self._taken for event in self._events(region, key)
        ]
        found.sort(key=lambda one: (one[1].position, one[1].dot or (0, 0)))
        for key, event in in_order(found):
            if event.kind == "snapshot":
                self.notes[f"{self.names[region]} joined a snapshot, which hides effects"] = None
            for words, expected in self._states[region].take(key, event):
                is_generated = words[0] == b"XADD" and b"*" in words
                at = halves(id_in(event)) if is_generated else (event.time_ms, 0)
                self._cells[region].append((at, command_cell(words, expected)))
        return len(found)

    def _events(self, region: int, key: bytes) -> Iterator[KeyEvent]:
        """The events of a key in a region since the session began that have not been taken."""
        taken = self._taken[key]
        is_new = taken[region] > 0
        more: Any = True
        while more:
            told = self._ask(
                region, "CRDT.HISTORY", key, "AFTER", taken[region], "COUNT", EVENTS_MAX
            )
            for event in map(event_of, told["events"]):
                taken[region] = event.position
                # Everything was flushed: no local record is new before the first new effect.
                is_new = is_new or (event.is_effect and not covers(self._begun, *event.dot))
                if is_new:
                    yield event
            more = told["next"]

    def _time_ms(self, region: int) -> int:
        reply = self.cluster.ask(region, "TIME")
        assert isinstance(reply, list) and isinstance(reply[0], bytes)
        assert isinstance(reply[1], bytes)
        return int(reply[0]) * 1000 + int(reply[1]) // 1000

    # -- what the user types

    def command(self, region: int, words: Words, is_read: bool) -> DecodedReply:
        """Sends a command. A read is recorded with its reply; the log tells of others."""
        if not is_read:
            reply = self.cluster.ask(region, *words)
            self.gather()
            return reply
        reply = self._undisturbed(lambda: self.cluster.ask(region, *words))
        self._cells[region].append(((self._time_ms(region), 0), self._read(words, reply)))
        return reply

    def _read(self, words: Words, reply: DecodedReply) -> str:
        """A read and its reply, with the IDs of the table (see `RegionState`)."""
        text = command_cell(words, written_reply(words, shape(words, reply)))
        for (key, entry_id), other in self._others.items():
            if raw(key) in words:
                text = re.sub(rf"(?<![\w-]){entry_id}(?![\w-])", other, text)
        return text

    def _undisturbed(self, read: Callable[[], Found]) -> Found:
        """What is read while no client changes anything, after all that was done before it."""
        for _ in range(_READINGS_MAX):
            self.gather()
            found = read()
            if not self.gather():
                return found
        raise ClusterError("clients write all the time, so no state can be read")

    def together(self, kind: str, regions: Sequence[int] = ()) -> None:
        """Performs a Sync, Cut or Heal of these regions, or of all."""
        chosen = tuple(sorted(regions or self.names))
        if len(chosen) < 2:
            raise Refused(f"{kind.lower()} needs two regions or more")
        if kind == "Sync" and len(chosen) > 2 and any(map(self._has_waiting, chosen)):
            # A client is answered as soon as some effects arrive. If those of two regions came at
            # once, the file could not say which came first.
            for pair in combinations(chosen, 2):
                self._perform(kind, pair)
        self._perform(kind, chosen)

    def _has_waiting(self, region: int) -> bool:
        """Whether a client of the region waits for entries."""
        info = self.cluster.ask(region, "INFO", "clients")
        return isinstance(info, bytes) and info_of(info)["blocked_clients"] != "0"

    def _perform(self, kind: str, regions: tuple[int, ...]) -> None:
        self.gather()
        self._end_interval()
        begun_ms = self._time_ms(regions[0])
        self._run.perform(_STEPS[kind](0, "", regions))
        text = f"— {kind} —"
        self._rows.append(Row(begun_ms, self._time_ms(regions[0]), dict.fromkeys(regions, text)))

    def _end_interval(self) -> None:
        """Makes rows of the cells since the last Sync. A region's order stays as it was."""
        merged: list[tuple[At, int, str]] = []
        for region, cells in self._cells.items():
            latest = (1 << 64, 0)
            for place, (at, text) in reversed(list(enumerate(cells))):
                # The row of an effect has the clock at which its block ended.
                latest = min(latest, at)
                cells[place] = latest, text
            merged += [(at, region, text) for at, text in cells]
            cells.clear()
        merged.sort(key=lambda one: one[0])
        self._rows += [Row(at[0], at[0], {region: text}) for at, region, text in merged]

    # -- the end

    def conclude(self) -> None:
        """Adds rows that read what each region holds now."""
        read = self._undisturbed(
            lambda: [
                {region: self._held(region, key) for region in self.names}
                for key in sorted(self._taken)
            ]
        )
        self._end_interval()
        now_ms = self._time_ms(min(self.names))
        self._rows += [Row(now_ms, now_ms, cells) for cells in read]

    def _held(self, region: int, key: bytes) -> str:
        """The reads of one key, with their replies: entries, groups, pending entries."""
        groups = self.cluster.ask(region, "XINFO", "GROUPS", key)
        names = [fields_of(one)["name"] for one in groups] if isinstance(groups, list) else []
        reads = [(b"XRANGE", key, b"-", b"+"), (b"XINFO", b"GROUPS", key)]
        reads += [(b"XPENDING", key, name, b"-", b"+", b"1000") for name in names]
        replies = [self.cluster.ask(region, *words) for words in reads]
        return "<br/>".join(
            self._read(words, reply) for words, reply in zip(reads, replies, strict=True)
        )

    def close(self) -> None:
        """Opens the links again, restores settings, and closes the connections. Data stays."""
        self.cluster.release()

    def text(self) -> str:
        """What has been recorded, as a scenario file."""
        self._end_interval()
        is_timed = any(state.is_timed for state in self._states.values())
        return write_session(self.title, self.names, self._header(), self._rows, is_timed)

    def _header(self) -> list[str]:
        defaults = Settings({}).values
        settings = {
            name: values
            for name, values in self._settings.items()
            if set(values.values()) != {str(defaults[name])}
        }
        lines = settings_lines(settings, self.names)
        if any(state.is_absolute for state in self._states.values()):
            ahead_ms = self._begun_ms - EPOCH_MS
            lines += [f"clock {name}: {ahead_ms} ms" for name in self.names.values()]
        return lines


def in_order(events: Sequence[tuple[str, KeyEvent]]) -> list[tuple[str, KeyEvent]]:
    """Events, each local record before the effects that came after it.

    In the log, the records of a commit follow its effects, though some records were made first.
    """
    ordered: list[tuple[str, KeyEvent]] = []
    begin = 0  # of the row before
    for position, row in groupby(events, key=lambda one: one[1].position):
        end = place = len(ordered)
        for key, event in reversed(list(row)):
            for at in range(begin, place):
                other, effect = ordered[at]
                is_of_commit = (effect.position, effect.source) == (position - 1, 0)
                if is_of_commit and _is_later(effect, event, other == key):
                    place = at
                    break
            ordered.insert(place, (key, event))
        begin = end
    return ordered


def _is_later(effect: KeyEvent, record: KeyEvent, has_its_key: bool) -> bool:
    """Whether an effect came after a record: by counter or time, or as it ends what that names."""
    if not effect.is_effect or record.is_effect or record.group is None:
        return False
    if isinstance(record.floor, list):
        return not covers(vector_of(record.floor), *effect.dot)
    if effect.kind == "add":
        return (record.at_ms or 0) < halves(id_in(effect))[0] <= effect.clock_ms
    return has_its_key and (
        effect.destroys(record.group) or any(map(effect.removes, record.entries))
    )
