"""The lines that a user types into a recorder: commands to regions, sync, cut, heal."""

from __future__ import annotations

import re
from typing import Final

from anabranch.region.engine.registry import commands
from anabranch.sim.history import Words
from anabranch.sim.scenario.cells import words_of
from anabranch.sim.scenario.expectation import Bindings, render
from anabranch.sim.scenario.session import Refused, Session
from anabranch.sim.scenario.shape import shape

HELP: Final = """\
us> XADD orders * item book    a command to region us; reads are recorded with their replies
sync [us eu]                   the regions become level; links are closed otherwise
cut us eu, heal [us eu]        links that stay closed in a sync, too
quit                           ends the recording"""

_COMMAND: Final = re.compile(r"(?P<region>[\w-]+)\s*>\s*(?P<rest>.+)")
# Commands about all keys.
_KEYLESS: Final = frozenset(b"FLUSHALL FLUSHDB DBSIZE KEYS SCAN RANDOMKEY".split())
_WAITS: Final = (b"WAIT", b"CRDT.WAIT", b"CRDT.SYNC")


class Prompt:
    """Performs typed lines; `done` once the user has quit."""

    def __init__(self, session: Session) -> None:
        self._session: Final = session
        self._ids: Final = {name: one for one, name in session.names.items()}
        self.done = False

    def perform(self, line: str) -> str:
        """Performs one line and returns the text to show: a reply as a table writes it.

        Raises:
            Refused: The line is wrong, or a scenario cannot hold it.
        """
        line = line.strip()
        if not line or line.startswith("#"):
            return ""
        command = _COMMAND.fullmatch(line)
        if command is not None:
            return self._command(self._region(command["region"]), command["rest"])
        word, *names = line.replace(",", " ").split()
        kind = word.capitalize()
        if kind in ("Quit", "Exit"):
            self.done = True
            return ""
        if kind in ("Help", "?"):
            return HELP
        if kind not in ("Sync", "Cut", "Heal"):
            raise Refused(f"a line is `us> COMMAND`, sync, cut, heal or quit, not: {line}")
        self._session.together(kind, [self._region(name) for name in names])
        return "OK"

    def _region(self, name: str) -> int:
        if name not in self._ids:
            raise Refused(f"no region '{name}' here; there are {', '.join(self._ids)}")
        return self._ids[name]

    def _command(self, region: int, rest: str) -> str:
        try:
            words = words_of(rest)
        except ValueError as error:
            raise Refused(str(error)) from None
        reply = self._session.command(region, words, is_read=_is_read(words))
        return render(shape(words, reply), Bindings())


def _is_read(words: Words) -> bool:
    """Whether a command only reads. Refused if it does not concern keys, or may wait."""
    upper = [word.upper() for word in words]
    text = words[0].decode("utf-8", "backslashreplace")
    if upper[0] in _WAITS or b"BLOCK" in upper[: [*upper, b"STREAMS"].index(b"STREAMS")]:
        raise Refused(
            f"{text} would wait, and a typed command must not: leave BLOCK out, or let a client of"
            " your own wait"
        )
    command = commands().get(upper[0])
    if command is not None and len(words) > 1:
        command = command.subcommands.get(upper[1], command)
    is_about_keys = upper[0] in _KEYLESS or (
        command is not None and command.keys and command.docs.group in ("stream", "generic")
    )
    if command is None or not is_about_keys:
        raise Refused(f"{text} is no command about keys; only such commands are typed here")
    return not command.is_write
